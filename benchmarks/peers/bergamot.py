"""The native Bergamot engine: `python -m benchmarks.peers.bergamot CONFIG SOURCE WORKERS`.

Only one `Service` with a model can live in a process, and batches are filled in one call: so the
whole file is given at once, which is the engine's best case.
"""

import sys
from typing import Any

from benchmarks.peers import protocol


def load(config: str, workers: int) -> protocol.Translate:
    """A function from texts to translations.

    Args:
        config: Marian's settings, with absolute paths.
        workers: Threads, each with a model of its own.
    """
    _stub_model_list()
    from bergamot import ResponseOptions, Service, ServiceConfig, VectorString

    service = Service(ServiceConfig(numWorkers=workers, logLevel="off"))
    model = service.modelFromConfigPath(config)

    def translate(texts: list[str]) -> list[str]:
        responses = service.translate(model, VectorString(texts), ResponseOptions())
        return [response.target.text for response in responses]

    return translate


def _stub_model_list() -> None:
    """Importing the package asks the network for a list of models, which nobody needs here."""
    import requests

    class Empty:
        status_code = 200
        text = '{"models": []}'
        content = text.encode()

        def json(self) -> Any:
            return {"models": []}

    requests.get = lambda *_args, **_kwargs: Empty()


def main() -> None:
    """Serves the protocol."""
    config, source, workers = sys.argv[1:]
    sentences = protocol.read_lines(source)
    translate = load(config, int(workers))
    translate(sentences[:64])
    protocol.serve(sentences, translate)


if __name__ == "__main__":
    main()
