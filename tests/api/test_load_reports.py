"""The response header with the load of the server, in one process and with HTTP workers."""

from tests.api.conftest import ServeAny
from tests.workers import until

HEADER = "endpoint-load-metrics"


def test_responses_report_the_load(serve_any: ServeAny) -> None:
    server = serve_any(load_reports=True)
    until(lambda: HEADER in server.translate("Hello.").headers)
    assert server.translate("Hello.").headers[HEADER].startswith("TEXT application_utilization=0.")


def test_load_is_not_reported_by_default(serve_any: ServeAny) -> None:
    server = serve_any()
    for _ in range(3):
        assert HEADER not in server.translate("Hello.").headers
