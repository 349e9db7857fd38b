"""The admin port: metrics and changes of models are hidden on the public port."""

from service.errors import NotFoundError
from tests.api.conftest import Serve
from tests.api.servers import assert_error

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
