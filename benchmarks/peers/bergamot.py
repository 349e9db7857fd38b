"""The native Bergamot engine: `python -m benchmarks.peers.bergamot CONFIG SOURCE WORKERS`.

A process can hold only one `Service` with a model, and a batch holds only sentences of one call. So
the whole file goes into one call, which is the engine's best case.
"""

import sys
from typing import Any

from benchmarks.peers import protocol


def load(config: str, workers: int) -> protocol.Translate:
    _stub_model_list()
    from bergamot import ResponseOptions, Service, ServiceConfig, VectorString

    service = Service(ServiceConfig(numWorkers=workers, logLevel="off"))
    model = service.modelFromConfigPath(config)

    def translate(texts: list[str]) -> list[str]:
        responses = service.translate(model, VectorString(texts), ResponseOptions())
        return [response.target.text for response in responses]

    return translate


def _stub_model_list() -> None:
    """Replaces `requests.get`, because the import of `bergamot` downloads a list of models."""
    import requests

    class Empty:
        status_code = 200
        text = '{"models": []}'
        content = text.encode()

        def json(self) -> Any:
            return {"models": []}

    requests.get = lambda *_args, **_kwargs: Empty()  # type: ignore[assignment]


def main() -> None:
    config, source, workers = sys.argv[1:]
    sentences = protocol.read_lines(source)
    translate = load(config, int(workers))
    translate(sentences[:64])
    protocol.serve(sentences, translate)


if __name__ == "__main__":
    main()
