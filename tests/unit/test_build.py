"""A tiny checkpoint on disk, under the vocabulary of the model that comes along."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from model.architectures.output import FullOutput, ShortlistOutput
from model.backends.native import library
from model.checkpoints import build
from model.checkpoints.build import load_engine, load_model
from model.checkpoints.embedding import load_embedding_model
from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.load import ModelFiles, read_folder
from model.errors import CheckpointFormatError
from model.precision import Precision
from model.sequence import EngineLimits
from tests.marian_writer import tiny_options, write_bin
from tests.tiny import greedy_ids, tiny_config, torch_runner
from tests.tiny_text import write_model as write_text_model

CPU = torch.device("cpu")
WIDE = tiny_config(d_model=64, num_heads=4, ffn_dim=128)


def write_model(folder: Path, built_in: ModelFiles, **changes: Any) -> ModelFiles:
    options = tiny_options(**{"dim_vocabs": [32000, 32000], **changes})
    write_bin(folder / "model.enpt.bin", options)
    assert built_in.shortlist is not None
    shutil.copy(built_in.source_vocab, folder / "vocab.enpt.spm")
    shutil.copy(built_in.shortlist, folder / "lex.enpt.bin")
    return read_folder(folder)


@pytest.mark.parametrize("precision", [each for each in Precision if each != Precision.FLOAT16])
def test_a_model_is_in_the_precision_asked_for(
    tmp_path: Path, built_in: ModelFiles, precision: Precision
) -> None:
    model = load_model(write_model(tmp_path, built_in), CPU, precision)
    assert (model.dtype, model.device) == (precision.dtype, CPU)
    assert model.precision is precision
    assert (model.config.eos_id, model.config.unk_id) == (0, 1)


@pytest.mark.parametrize(("use_shortlist", "kind"), [(True, ShortlistOutput), (False, FullOutput)])
def test_an_engine_uses_the_shortlist_on_request(
    tmp_path: Path, built_in: ModelFiles, use_shortlist: bool, kind: type
) -> None:
    files = write_model(tmp_path, built_in)
    engine = load_engine(files, CPU, Precision.FLOAT32, EngineLimits(max_rows=2), use_shortlist)
    runner = torch_runner(engine)
    assert isinstance(runner.output, kind)
    (target,) = greedy_ids(engine, [[9086, 391, 3, 0]])
    if runner.shortlist is not None:
        assert set(target) <= set(runner.shortlist.ids([9086, 391, 3, 0]).tolist())


def test_a_damaged_shortlist_is_refused_and_none_is_the_whole_vocabulary(
    tmp_path: Path, built_in: ModelFiles
) -> None:
    files, limits = write_model(tmp_path, built_in), EngineLimits(max_rows=2)
    (tmp_path / "lex.enpt.bin").write_bytes(b"nothing")
    with pytest.raises(CheckpointFormatError, match=r"lex\.enpt\.bin is not a binary shortlist"):
        load_engine(files, CPU, Precision.FLOAT32, limits, True)
    (tmp_path / "lex.enpt.bin").unlink()
    engine = load_engine(read_folder(tmp_path), CPU, Precision.FLOAT32, limits, True)
    assert isinstance(torch_runner(engine).output, FullOutput)


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """No build of the native code is usable, and the process has not said so yet."""
    monkeypatch.setattr(library, "LIBRARIES", [])
    library.log_missing_build.cache_clear()


@pytest.mark.usefixtures("no_build")
def test_missing_native_code_is_logged_once_with_the_way_out(
    built_in: ModelFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a compiler, speed and translations used to differ without a word."""
    for _ in range(2):
        assert load_model(built_in, CPU, "auto").precision is not Precision.INT8
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "regard.native")
    for words in ("slower", "differs", "make install"):
        assert words in record.message


@pytest.mark.usefixtures("no_build")
def test_missing_native_code_is_logged_for_embedding_models(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny encoder is too narrow for native code: this test says that it is not."""
    monkeypatch.setattr(library, "is_supported", lambda config: True)
    write_text_model(tmp_path / "tiny")
    load_embedding_model(find_embedding_models(str(tmp_path))[0], CPU, "int8")
    assert "make install" in caplog.text


@pytest.mark.usefixtures("no_build")
@pytest.mark.parametrize(
    ("libraries", "dtype", "device"),
    [([], "float32", "cpu"), ([], "auto", "cuda"), (["avx2"], "auto", "cpu")],
)
def test_native_code_that_is_not_missed_is_not_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    libraries: list[str],
    dtype: str,
    device: str,
) -> None:
    monkeypatch.setattr("model.precision.fastest_float", lambda device: Precision.BFLOAT16)
    monkeypatch.setattr(library, "LIBRARIES", libraries)
    library.select_native_precision(WIDE, dtype, torch.device(device))
    assert not caplog.records


@pytest.mark.skipif(not library.LIBRARIES, reason="nothing was compiled for this processor")
@pytest.mark.parametrize("limit", [1e9, 0.0])
def test_auto_is_int8_for_float_weights_if_translations_hardly_change(
    tmp_path: Path,
    built_in: ModelFiles,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    limit: float,
) -> None:
    monkeypatch.setattr(build, "MAX_CHANGE", limit)
    sizes = {"dim_emb": 64, "transformer_heads": 4, "transformer_dim_ffn": 64}
    files = write_model(tmp_path, built_in, **sizes)
    model = load_model(files, CPU, "auto")
    assert model.precision is (Precision.INT8 if limit else Precision.FLOAT32)
    assert bool(limit) is not ("REGARD_DTYPE=int8" in caplog.text)
    assert load_model(files, CPU, "float32").precision is Precision.FLOAT32
