"""Makes names of models from the names of their folders. Does not import torch."""

import re
from pathlib import Path

UNUSUAL = re.compile(r"[^A-Za-z0-9._+-]+")


def title_of(folder: Path) -> str:
    """Returns the name of the model in a folder, which is usually the name of the folder.

    In the cache of the Hugging Face hub the folder is models--OWNER--NAME/snapshots/REVISION, and
    the model is called NAME. The name is used in URLs, so characters other than letters, digits and
    `._+-` become hyphens.
    """
    path = folder.absolute()
    repository = path.parent.parent.name
    is_cached = path.parent.name == "snapshots" and repository.startswith("models--")
    name = repository.rpartition("--")[2] if is_cached else name_of(folder)
    return UNUSUAL.sub("-", name)


def name_of(folder: Path) -> str:
    """Returns the name of a folder. For `.` and `..`, this is the name of the real folder."""
    return folder.resolve().name if folder.name in ("", "..") else folder.name
