"""Runs the dashboard and the alerts against a real Prometheus: `python -m checks.live_board`.

It starts a server with the built-in models and a Prometheus that scrapes it. Then it sends requests
of every task, and looks for the data of the dashboard and of the alerts. It also looks for
exemplars (links to traces). The exit status is 1 if data is missing or an alert rule is not
healthy. Without the program `prometheus`, the check is skipped.
"""

import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from checks.board import DESCRIPTION, expressions
from service.files.private_server import reserved_port, running_server
from service.settings import DEFAULT_MODELS

RULES = DESCRIPTION.parents[1] / "prometheus" / "alerts.yml"
SCRAPE_SECONDS = 1
DRIVE_SECONDS = 30.0
START_LIMIT_SECONDS = 30.0
PERIOD_SECONDS = 600.0
TRACED = ("regard_request_duration_seconds_bucket", "regard_stage_duration_seconds_bucket")
"""Series whose observations have exemplars."""

VARIABLES = {"$task": ".*", "$model": ".*", "$__rate_interval": "30s"}
SELECTOR = re.compile(r"\b(?:up|(?:regard|process)_\w+)\b(?:\{[^}]*\})?")

LIMIT_SECONDS = 60.0
SENTENCE = "The lions watched the children because they were hungry. "
JSON = "application/json"
BOUNDARY = "part-of-the-form"
FORM = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="target"\r\n\r\npt\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    f"{SENTENCE}\r\n--{BOUNDARY}--\r\n"
).encode()

PAIR = {"source": "en", "target": "pt"}
REQUESTS: tuple[tuple[str, Any], ...] = (
    ("/translate", {"q": SENTENCE, **PAIR}),
    ("/translate", {"q": [SENTENCE] * 20, **PAIR}),
    ("/translate", {"q": "The lion, the cat, " * 100, **PAIR}),  # over the length limit
    ("/translate", {"q": SENTENCE, **PAIR, "return_alignment": True}),
    ("/translate", {"q": SENTENCE, "source": "en", "target": "ga"}),  # the remote model
    ("/translate", {"q": SENTENCE, "source": "en", "target": "xx"}),  # invalid
    ("/v2/translate", {"text": [SENTENCE], "source_lang": "EN", "target_lang": "PT-BR"}),
    ("/detect", {"q": SENTENCE}),
    ("/embed", {"inputs": [SENTENCE, SENTENCE * 100]}),
    ("/v1/embeddings", {"input": SENTENCE, "model": "all-MiniLM-L6-v2"}),
    ("/attention", {"text": SENTENCE, **PAIR}),
    ("/rerank", {"query": SENTENCE, "texts": [SENTENCE]}),  # no built-in model reranks
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the dashboard, or a series that an alert reads."""

    place: str  # row and title of the panel, or name of the alert
    expression: str  # query with the variables of the dashboard filled in


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        """Returns the data of a reply; raises an OSError if Prometheus is not ready yet."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            raise ValueError(json.load(error)["error"]) from error

    def values(self, expression: str, moment: float) -> list[float]:
        """Returns the numbers that a query finds at a moment; NaN counts as no data."""
        found = self.get("query", query=expression, time=str(moment))["result"]
        numbers = [float(each["value"][1]) for each in found]
        return [number for number in numbers if not math.isnan(number)]

    def num_exemplars(self, name: str) -> int:
        now = time.time()
        times = {"start": str(now - PERIOD_SECONDS), "end": str(now)}
        found = self.get("query_exemplars", query=name, **times)
        return sum(len(series["exemplars"]) for series in found)

    def is_up(self, moment: float) -> bool:
        try:
            return self.values("up", moment) == [1.0]
        except OSError:
            return False

    def scraped(self) -> float:
        """Waits for a moment after a good scrape: after a failed one, gauges have no data."""
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while not self.is_up(moment := time.time()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Prometheus at {self.url} has not scraped the server")
            time.sleep(0.2)
        return moment


def main() -> None:
    program = shutil.which("prometheus")
    if program is None:
        print("SKIPPED: prometheus was not found, so no query was run. Install prometheus.")
        return
    with remote_model() as endpoint, tempfile.TemporaryDirectory() as folder:
        models = (*DEFAULT_MODELS, f"openai:remote@{endpoint}/v1#en-ga")
        os.environ |= {
            "REGARD_MODELS": ",".join(models),
            "REGARD_FILES": "true",
            "REGARD_WORKERS": "1",
            "REGARD_STATE": f"{folder}/state",
            # The endpoint accepts the traces and drops them.
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "NO_PROXY": "127.0.0.1",
        }
        with running_server(None) as url, running_prometheus(program, url, folder) as prometheus:
            print(f"sending requests for {DRIVE_SECONDS:g} s")
            for (path, status), number in sorted(drive(url, DRIVE_SECONDS).items()):
                print(f"  {path} {status}: {number} responses")
            time.sleep(3 * SCRAPE_SECONDS)
            missing = report(prometheus, prometheus.scraped())
    sys.exit(1 if missing else 0)


def report(prometheus: Prometheus, moment: float) -> int:
    missing = 0
    for name, queries in (("dashboard", [*board_queries()]), ("alerts", [*alert_series()])):
        values = {query: prometheus.values(query.expression, moment) for query in queries}
        for query, found in values.items():
            if not found:
                print(f"no data: {query.place}: {query.expression}")
            elif not any(found):
                print(f"only zeros: {query.place}")
        num_full = sum(map(bool, values.values()))
        print(f"{name}: {num_full} of {len(values)} queries have data")
        missing += len(values) - num_full
    for name in TRACED:
        if not prometheus.num_exemplars(name):
            print(f"no exemplar: {name}")
            missing += 1
    for group in prometheus.get("rules")["groups"]:
        for rule in group["rules"]:
            if rule["health"] != "ok":
                print(f"alert {rule['name']}: {rule['health']}: {rule.get('lastError', '')}")
                missing += 1
    return missing


def board_queries() -> Iterator[Query]:
    for row in yaml.safe_load(DESCRIPTION.read_text("utf-8"))["rows"]:
        for panel in row["panels"]:
            for legend, expression in expressions(panel).items():
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                yield Query(f"{row['row']} / {panel['title']} / {legend}", expression)


def alert_series() -> Iterator[Query]:
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            for selector in sorted({*SELECTOR.findall(rule["expr"])}):
                yield Query(rule["alert"], f"count({selector})")


@contextmanager
def running_prometheus(program: str, target: str, folder: str) -> Iterator[Prometheus]:
    """Runs a Prometheus that scrapes the server at the address `target`."""
    with reserved_port() as port:
        address = f"127.0.0.1:{port}"
    targets = [{"targets": [target.removeprefix("http://")]}]
    intervals = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    config = {
        "global": dict.fromkeys(intervals, f"{SCRAPE_SECONDS}s"),
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "regard", "static_configs": targets}],
    }
    path = Path(folder) / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    files = (f"--config.file={path}", f"--storage.tsdb.path={folder}/data")
    flags = (f"--web.listen-address={address}", "--enable-feature=exemplar-storage")
    with (Path(folder) / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *files, *flags], stdout=log, stderr=log)
    prometheus = Prometheus(f"http://{address}")
    try:
        prometheus.scraped()
        yield prometheus
    finally:
        process.terminate()
        process.wait()


def drive(url: str, seconds: float) -> dict[tuple[str, int], int]:
    """Sends requests of every kind; returns the number of responses by path and status."""
    counts = Counter[tuple[str, int]]()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path, body in REQUESTS:
            counts[path, send(url + path, json.dumps(body).encode())] += 1
        stream = json.dumps({"q": SENTENCE * 3, **PAIR}).encode()
        status = send(f"{url}/translate", stream, {"Accept": "application/x-ndjson"})
        counts["/translate", status] += 1
        form = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        counts["/translate_file", send(f"{url}/translate_file", FORM, form)] += 1
        hang_up(url)
    return counts


def send(url: str, body: bytes, headers: dict[str, str] | None = None) -> int:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    request = urllib.request.Request(
        url, body, {"Content-Type": JSON, "X-Request-Id": "check", **trace, **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def hang_up(url: str) -> None:
    """Sends a large request, and closes the connection before the response."""
    body = json.dumps({"q": [f"{SENTENCE} {n}" for n in range(200)], **PAIR}).encode()
    address = urllib.parse.urlsplit(url)
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n"
    with socket.create_connection((str(address.hostname), int(address.port or 80))) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.05)


@contextmanager
def remote_model() -> Iterator[str]:
    """Runs a chat endpoint that answers each text in capital letters; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            reply = b""
            if self.path.endswith("/chat/completions"):
                text = json.loads(body)["messages"][-1]["content"].upper()
                choice = {"message": {"role": "assistant", "content": text}}
                reply = json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
