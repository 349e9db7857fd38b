"""Checks the Host header of requests, to prevent DNS rebinding.

In DNS rebinding, the owner of another site changes the DNS entry of that site to the address of
this server. The browser then lets pages of the other site read the replies of this server. But the
header Host still has the name of the other site.
"""

import ipaddress
from collections.abc import Sequence

from service.errors import SHOWN_CHARS, MisdirectedError

ANY = "*"

LOCAL = ("localhost", "*.localhost")
"""Names that always point to this machine."""

MAX_KNOWN = 1024
"""Largest number of allowed Host headers that are remembered and not checked again."""


class Hosts:
    """Decides whether the server answers requests for a host.

    An IP address is always allowed, because rebinding needs a name. A request without the header
    Host is allowed too: it comes from no browser, because every browser sends this header.

    Args:
        allowed: Allowed names. `*.example.org` allows all names below example.org, and `*` allows
            all names. If no name is given, the default applies: the names of this machine if the
            server listens on a loopback address, and otherwise all names.
        bound: Host that the server listens on.
    """

    def __init__(self, allowed: Sequence[str], bound: str) -> None:
        default = (*LOCAL, bound) if is_loopback(bound) else (ANY,)
        names = [name.lower() for name in allowed] or default
        self.allows_all = ANY in names
        self.names = {name for name in names if not name.startswith("*.")}
        self.suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        self.known: set[bytes] = set()

    def check(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Refuses a request for a host that is not allowed.

        Raises:
            MisdirectedError: The header Host names a host that is not allowed.
        """
        if self.allows_all:
            return
        for name, value in headers:
            if name == b"host":
                if value not in self.known:
                    self._check(value)
                return

    def _check(self, header: bytes) -> None:
        host = host_of(header.decode("latin-1"))
        if not (host in self.names or host.endswith(self.suffixes) or is_address(host)):
            raise MisdirectedError(
                f"this server does not answer for the host {host[:SHOWN_CHARS]}",
                details="send the request to a name in REGARD_ALLOWED_HOSTS or to an IP address, "
                "or add the name to REGARD_ALLOWED_HOSTS",
            )
        if len(self.known) < MAX_KNOWN:
            self.known.add(header)


def host_of(header: str) -> str:
    """Returns the host name or the IP address in a Host header, in lower case, without the port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_address(host: str) -> bool:
    """Returns whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Returns whether a server that listens on a host is reached only from this machine."""
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost" or host.lower().endswith(".localhost")
