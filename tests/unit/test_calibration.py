"""The comparison of int8 and float32 models on sample sentences."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.backends.native import library
from model.checkpoints import build
from model.checkpoints.build import (
    MAX_CHANGE,
    load_model,
    log_probs,
    mean_change,
    translate_samples,
)
from model.checkpoints.load import ModelFiles, find_models, load_vocabularies
from model.checkpoints.weights import SAMPLES
from model.precision import Precision
from tests import checkpoint_folders as folders

pytestmark = pytest.mark.checkpoint

CPU = torch.device("cpu")


def select_like_turing(name: str, _device: torch.device, is_int8: bool = False) -> Precision:
    """The precision on a GPU that has matrix units for float16 alone."""
    return Precision.FLOAT16 if name == "auto" else Precision(name)


def test_int8_of_a_trained_model_is_close_and_coarser_rounding_is_not(built_in: ModelFiles) -> None:
    exact = load_model(built_in, CPU, Precision.FLOAT32)
    pairs = translate_samples(exact, built_in, load_vocabularies(built_in))
    assert len(pairs) == len(SAMPLES["en"])
    assert all(target[-1] == exact.config.eos_id for _, target in pairs)
    wanted, rounded = log_probs(exact, pairs), load_model(built_in, CPU, Precision.INT8)
    assert mean_change(wanted, log_probs(exact, pairs)) == 0
    assert 0 < mean_change(wanted, log_probs(rounded, pairs)) < MAX_CHANGE / 2
    with torch.no_grad():
        for parameter in exact.parameters():
            if parameter.dim() == 2 and min(parameter.shape) > 1:
                step = parameter.abs().amax(dim=1, keepdim=True) / 15
                parameter.copy_((parameter / step).round() * step)
    assert mean_change(wanted, log_probs(exact, pairs)) > MAX_CHANGE


def test_samples_of_all_languages_are_cut_where_the_own_has_none(
    built_in: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary of another language has more tokens; no sample was left, and loading failed."""
    monkeypatch.setattr(build, "MAX_TOKENS", 4)
    exact = load_model(built_in, CPU, Precision.FLOAT32)
    files = replace(built_in, source="fi")
    pairs = translate_samples(exact, files, load_vocabularies(built_in))
    assert len(pairs) > len(SAMPLES["en"])
    assert {len(source) for source, _ in pairs} == {4}


@pytest.mark.parametrize(
    ("kind", "languages"),
    [("m2m", ["de", "en", "pt"]), ("nllb", ["deu_Latn", "eng_Latn"]), ("small", ["de", "en"])],
)
def test_samples_of_a_multilingual_model_have_the_tokens_of_a_pair(
    tmp_path: Path, kind: str, languages: list[str]
) -> None:
    folder = tmp_path / "any"
    folder.mkdir()
    folders.multilingual(kind, languages)(folder)
    (files,) = find_models(str(folder))
    model = load_model(files, CPU, Precision.FLOAT32)
    vocabularies = load_vocabularies(files)
    pairs = translate_samples(model, files, vocabularies)
    assert files.tokens is not None
    between = vocabularies.between(files.tokens, "en", "de")
    assert len(pairs) == len(SAMPLES["en"])
    for source, target in pairs:
        prefix = between.source.prefix
        assert source[: len(prefix)] == prefix
        assert not {*prefix} & {*source[len(prefix) :]}
        assert between.first_id in (None, target[0])


def test_auto_keeps_float16_that_is_close(
    built_in: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (build, library):
        monkeypatch.setattr(module, "select_precision", select_like_turing)
    model = load_model(built_in, CPU, "auto")
    assert (model.precision, model.dtype) == (Precision.FLOAT16, torch.float16)


@pytest.mark.parametrize("change", [MAX_CHANGE * 1.01, float("nan")])
def test_auto_leaves_float16_that_is_not_close(
    change: float,
    built_in: ModelFiles,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A number that is too large for float16 becomes infinite, and then not a number."""
    for module in (build, library):
        monkeypatch.setattr(module, "select_precision", select_like_turing)
    monkeypatch.setattr(build, "mean_change", lambda *_: change)
    model = load_model(built_in, CPU, "auto")
    assert (model.precision, model.dtype) == (Precision.FLOAT32, torch.float32)
    exact = load_model(built_in, CPU, "float32")
    found, expected = model.state_dict(), exact.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert "set REGARD_DTYPE=float16 to use it nevertheless" in caplog.text
