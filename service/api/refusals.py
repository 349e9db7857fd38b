"""Prepares the responses to requests that are refused before the application gets them."""

from collections.abc import Sequence

from service.api.dialect import Dialect
from service.api.errors import error_response
from service.http_server.early_refusals import ID_MARK, Template
from service.http_server.loop_load import too_many
from service.tasks.context import RequestContext


def refusal_templates(dialects: Sequence[Dialect]) -> dict[bytes, Template]:
    """Maps the path of each counted POST route to the response that refuses a request.

    A route is counted if its path is in `Dialect.tasks`. The server sends the response during an
    overload.
    """
    return {
        path.encode(): _template(dialect, task)
        for dialect in dialects
        for path, task in dialect.tasks.items()
        if ("POST", path) in dialect.routes
    }


def _template(dialect: Dialect, task: str) -> Template:
    """Returns the response in the shape of the dialect, with ID_MARK as the id of the request."""
    response = error_response(too_many(), RequestContext(ID_MARK, task=task), dialect.error_shape)
    headers = [*response.raw_headers, (b"x-request-id", ID_MARK.encode())]
    if dialect.id_header:
        headers.append((dialect.id_header.lower().encode(), ID_MARK.encode()))
    lines = [name + b": " + value for name, value in headers]
    head = b"\r\n".join([*lines, b"", b""])
    return Template(task, response.status_code, head + bytes(response.body))
