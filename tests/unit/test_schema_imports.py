"""The schemas can be imported without the libraries that only a running server needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from service import api

SCHEMAS = sorted(
    f"service.api.{path.parent.name}.{path.stem}"
    for path in Path(api.__path__[0]).glob("*/*schemas.py")
)
HEAVY = ("numpy", "prometheus_client", "torch", "uvicorn")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_load_neither_numpy_nor_prometheus(name: str) -> None:
    program = f"import sys, {name}; print(*[m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""


def test_every_dialect_has_schemas() -> None:
    dialects = {name.split(".")[2] for name in SCHEMAS}
    assert dialects >= {"attention", "libretranslate", "openai", "tei"}
