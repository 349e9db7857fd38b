"""Restricts /metrics and the loading and unloading of models to the admin port, if one is set."""

from starlette.types import Scope

from service.errors import NotFoundError


class AdminPort:
    """Hides /metrics, and the routes that load and unload models, except on the admin port.

    Args:
        port: The admin port; 0 leaves these routes on every port.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def check(self, scope: Scope) -> None:
        """Refuses a request that needs the admin port and arrived at another port.

        Raises:
            NotFoundError: The route is served on the admin port alone.
        """
        if not self.port or scope["path"] != "/metrics" and not changes_models(scope):
            return
        server = scope.get("server")
        if server is None or server[1] != self.port:
            raise NotFoundError("there is no such address; GET /docs lists all routes")


def changes_models(scope: Scope) -> bool:
    """Returns whether a request loads or unloads a model."""
    return scope["method"] in ("POST", "DELETE") and scope["path"].startswith("/v1/models/")
