"""The rules that refuse requests because of their host, their page or their port."""

from dataclasses import dataclass

from starlette.types import Scope

from service.api.access.admin_port import AdminPort
from service.api.access.hosts import Hosts
from service.api.access.origins import Origins
from service.settings import Settings


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The rules of one server.

    Attributes:
        hosts: Decides for which hosts the server answers.
        origins: Decides which pages may call the server.
        admin_port: If the server has an admin port, hides /metrics and the routes that load and
            unload models on all other ports.
    """

    hosts: Hosts
    origins: Origins
    admin_port: AdminPort

    @classmethod
    def of(cls, settings: Settings) -> "AccessRules":
        """Builds the rules from the settings of the server."""
        return cls(
            Hosts(settings.allowed_hosts, settings.host),
            Origins(settings.allowed_origins),
            AdminPort(settings.admin_port),
        )

    def check(self, scope: Scope) -> None:
        """Checks a request.

        Raises:
            ServiceError: The host, the page or the port is not allowed.
        """
        self.hosts.check(scope["headers"])
        self.origins.check(scope["method"], scope["headers"])
        self.admin_port.check(scope)
