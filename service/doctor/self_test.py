"""Starts a private server with the models of the settings, and sends it one sentence.

The server translates the sentence if it has a local translation model. It embeds the sentence if
it has a local embedding model.
"""

import json
import time
import urllib.error
import urllib.request
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from service.private_server import ServerStartError, running_server, serve_command

SENTENCE = "The cat sat on the mat."
READY_LIMIT_SECONDS = 180.0
REPLY_LIMIT_SECONDS = 60.0
SHOWN_CHARS = 2000

Facts = dict[str, Any]


def self_test() -> Facts:
    """Returns a description of each model and the results for one sentence, or the fault.

    The server has one worker. The test asks for a language pair of a local model. A remote model
    may translate the sentence nevertheless, because the server prefers a remote model of this pair
    to a local multilingual model.
    """
    began = time.monotonic()
    try:
        with (
            TemporaryDirectory() as state,
            running_server(None, partial(one_worker, state), READY_LIMIT_SECONDS) as url,
        ):
            ready_seconds = round(time.monotonic() - began, 2)
            models = ask(f"{url}/v1/models")["data"]
            local = [model for model in models if model["device"] not in (None, "remote")]
            return {
                "ready_seconds": ready_seconds,
                "models": [
                    {key: model[key] for key in ("id", "state", "device", "dtype", "revision")}
                    for model in models
                ],
                **replies(url, local),
            }
    except ServerStartError as error:
        return {"fault": str(error)[-SHOWN_CHARS:]}
    except urllib.error.HTTPError as error:
        return {"fault": error.read().decode("utf-8", "replace")[:SHOWN_CHARS]}
    except OSError as error:
        return {"fault": f"the server does not answer: {error}"}


def one_worker(state: str, port: int) -> list[str]:
    """Returns the command for a server with one device worker and one HTTP worker.

    Args:
        state: Folder of its state, so that a damaged file of the operator stays in its place.
        port: Port to listen on.
    """
    command = [*serve_command(port), "--workers", "1", "--http-workers", "1"]
    return ["env", f"REGARD_STATE={state}", *command]


def replies(url: str, models: list[Facts]) -> Facts:
    """Returns the translation of one sentence, and the number of values in its embedding.

    A result is left out if no local model can compute it.

    Args:
        url: Address of the server.
        models: Descriptions of the local models, as in /v1/models.
    """
    found: Facts = {}
    for model in models:
        if model.get("sources") and model.get("targets") and "translation" not in found:
            source = "en" if "en" in model["sources"] else model["sources"][0]
            target = next((code for code in model["targets"] if code != source), source)
            body = {"q": SENTENCE, "source": source, "target": target}
            reply = ask(f"{url}/translate", body)
            found["pair"] = f"{source}-{target}"
            found["translation"] = reply["translatedText"]
        elif "dimensions" in model and "embedding_size" not in found:
            vectors = ask(f"{url}/v1/embeddings", {"input": SENTENCE, "model": model["id"]})
            found["embedding_size"] = len(vectors["data"][0]["embedding"])
    return found


def ask(url: str, body: Facts | None = None) -> Any:
    """Sends a request, and returns the JSON of the reply."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=REPLY_LIMIT_SECONDS) as response:
        return json.load(response)
