"""Section "shapes-http": serves random weights in the shape of OPUS-MT over HTTP, in int8.

The contestants are Regard, and CTranslate2 behind the two servers of `benchmarks.peers.server`.
One sentence is sent per POST. Each source and each target has 30 tokens.
"""

import json
from dataclasses import asdict, replace

from benchmarks import load, report
from benchmarks.engines import Contestant, ctranslate2_python
from benchmarks.environments import WORK, MissingError
from benchmarks.http import LATENCIES, RATE
from benchmarks.load import Shape
from benchmarks.options import Options
from benchmarks.peers.protocol import sentences
from benchmarks.random_weights import CASES, PAIR, write_folder
from benchmarks.report import Result
from benchmarks.servers import Server, regard

SHAPE = CASES["opus-mt"]
CLIENTS = (1, 64)
SENTENCES = 2048
MODES = ("naive", "batched")
AGAINST = "ctranslate2-naive"

GUARDS_OFF = {"REGARD_GUARD_BEAM_SIZE": "0"}
"""Random weights repeat tokens. With guards, Regard would decode such sentences a second time."""


def measure(options: Options) -> Result:
    """Measures each server under each load in turn, round by round."""
    result = Result("shapes-http", facts={"seconds a point": options.seconds})
    result.facts["tokens in and out"] = SHAPE.tokens
    bodies = load.translate_bodies(sentences(SENTENCES, SHAPE.tokens, SHAPE.vocab_size), PAIR)
    servers: list[Server] = []
    try:
        for contestant in contestants(options, result):
            servers.append(Server(contestant))
            _check_lengths(servers[-1], bodies[:64])
        for turn in range(1, options.rounds + 1):
            for clients in CLIENTS:
                shape = Shape(clients, options.seconds, options.warmup, offset=64 * turn)
                for server in servers:
                    figures = load.run(server.port, bodies, shape, server.pid).figures()
                    result.add(server.name, f"{SHAPE.name}, {clients}", turn, figures)
    finally:
        for server in servers:
            server.stop()
    return result


def contestants(options: Options, result: Result) -> list[Contestant]:
    """Describes Regard and both servers of CTranslate2."""
    models = write_folder(WORK / "shapes-http", SHAPE).parent
    ours = regard(replace(options, models=str(models), dtype="int8"), GUARDS_OFF)
    try:
        python = ctranslate2_python()
    except MissingError as error:
        result.notes.append(f"ctranslate2 was left out: {error}")
        return [ours]
    sizes = json.dumps(asdict(SHAPE)).replace("{", "{{").replace("}", "}}")
    words = ["--engine", "ctranslate2-shape", sizes, str(WORK / "shapes" / f"{SHAPE.name}-words")]
    module = [python, "-m", "benchmarks.peers.server", "--port", "{port}"]
    module += ["--workers", str(options.workers)]
    peers = [Contestant(f"ctranslate2-{mode}", [*module, "--mode", mode, *words]) for mode in MODES]
    return [ours, *peers]


def _check_lengths(server: Server, bodies: list[str]) -> None:
    """Translates some sentences, which warms the server up, and checks their lengths."""
    done = load.run(server.port, bodies, Shape(8, requests=len(bodies)), server.pid)
    lengths = {len(text.split()) for text in load.translations(done)}
    if lengths != {SHAPE.tokens}:
        raise MissingError(f"{server.name} returned {sorted(lengths)} words; errors: {done.errors}")


def table(result: Result, _options: Options) -> str:
    rows = report.comparison(result, RATE, lambda _: AGAINST, LATENCIES)
    headings = ["case, clients", "server", "requests/s", f"× {AGAINST}", *LATENCIES]
    return report.markdown(headings, rows)
