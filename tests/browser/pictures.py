"""The folder of the pictures of README and of the documentation."""

import os
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def keep(name: str, image: bytes) -> None:
    """Keeps a picture only where it is asked for: fonts differ between machines."""
    if os.environ.get("REGARD_WRITE_IMAGES"):
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / name).write_bytes(image)
