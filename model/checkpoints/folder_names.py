"""What the model in a folder is called. Without torch."""

import re
from pathlib import Path

UNUSUAL = re.compile(r"[^A-Za-z0-9._+-]+")


def title_of(folder: Path) -> str:
    """The folder's name, or the one that a hub's cache has for it.

    There it is NAME in models--OWNER--NAME/snapshots/REVISION. It becomes part of addresses: what
    these have other uses for becomes a hyphen.
    """
    path = folder.absolute()
    is_cached = path.parent.name == "snapshots"
    name = path.parent.parent.name.rpartition("--")[2] if is_cached else name_of(folder)
    return UNUSUAL.sub("-", name)


def name_of(folder: Path) -> str:
    """Its own, also where it is named relative to itself."""
    return folder.resolve().name if folder.name in ("", "..") else folder.name
