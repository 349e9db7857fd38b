"""Translations of the built-in models, written by make.py."""

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("built_in.json")


def golden(name: str) -> dict[str, Any]:
    """Returns the revision of a model, and sentences with their token ids and translations."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))["models"][name]
    return found


def sentences(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = golden(name)["sentences"]
    return found
