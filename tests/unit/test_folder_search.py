"""Where models are looked for, what they are called, and what is said of other folders."""

from pathlib import Path
from typing import Any

import pytest

from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.folders import files_below
from model.errors import CheckpointError, CheckpointFormatError
from service.models.catalog import find_all
from tests.checkpoint_folders import write_student
from tests.tiny_text import change_json, write_encoder, write_json, write_model

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def test_links_to_folders_are_followed(tmp_path: Path) -> None:
    """They were passed over without a word."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "ende").mkdir(parents=True)
    write_model(elsewhere / "tiny")
    write_student(elsewhere / "ende")
    root = tmp_path / "models"
    root.mkdir()
    for name in ("tiny", "ende"):
        (root / name).symlink_to(elsewhere / name)
    assert [files.name for files in find_all(str(root))] == ["en-de", "tiny"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert list(files_below(tmp_path)) == [tmp_path / "a" / "file"]


def test_encoders_below_a_folder_need_no_modules(tmp_path: Path) -> None:
    """They were passed over where another model stood beside them."""
    write_model(tmp_path / "whole", ["Transformer", "Pooling"])
    write_encoder(tmp_path / "whole" / "onnx")  # a part of the one around it
    write_encoder(tmp_path / "plain")
    write_json(tmp_path / "other" / "config.json", {"model_type": "llama"})
    (tmp_path / "other" / "model.safetensors").touch()
    write_json(tmp_path / "config-alone" / "config.json", {"model_type": "bert"})
    found = find_embedding_models(str(tmp_path))
    assert [(files.name, files.head is None) for files in found] == [
        ("plain", True),
        ("whole", False),
    ]


def test_damaged_encoder_is_not_passed_over(tmp_path: Path) -> None:
    write_model(tmp_path / "whole")
    write_encoder(tmp_path / "plain")
    (tmp_path / "plain" / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON"):
        find_embedding_models(str(tmp_path))


def install(site: Path, name: str) -> None:
    """Writes down the files below a folder as those of a package."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    folder = site / name.replace("-", "_")
    (folder / "__init__.py").write_text("raise AssertionError('it was imported')")
    files = [path.relative_to(site) for path in folder.rglob("*") if path.is_file()]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")


def test_models_of_packages_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were named after their folders, which packages call alike. None is imported."""
    for package, inner in [("one-text", ["model_files"]), ("two-texts", ["a/files", "b/files"])]:
        for name in inner:
            folder = tmp_path / package.replace("-", "_") / name
            folder.parent.mkdir(parents=True, exist_ok=True)
            write_model(folder)
        install(tmp_path, package)
    monkeypatch.syspath_prepend(tmp_path)
    found = [
        files
        for package in ("one-text", "two-texts")
        for files in find_embedding_models(f"package:{package}")
    ]
    assert [files.name for files in found] == ["one_text", "two_texts-a-files", "two_texts-b-files"]
    assert found[0].folder == tmp_path / "one_text" / "model_files"


@pytest.mark.parametrize(
    "name", ["model.ende.bin", "vocab.ende.spm", "tiny/model.safetensors", "tiny/tokenizer.json"]
)
def test_pointers_of_git_lfs_are_recognised(tmp_path: Path, name: str) -> None:
    write_student(tmp_path)
    write_model(tmp_path / "tiny")
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(CheckpointFormatError, match=rf"{name}: pointers of Git LFS.* lfs pull"):
        find_all(str(tmp_path))


def llm(folder: Path) -> None:
    write_encoder(folder)
    change_json(folder / "config.json", model_type="llama")


def translator(model_type: str) -> Any:
    return lambda folder: write_json(folder / "config.json", {"model_type": model_type})


def compressed(folder: Path) -> None:
    """As Firefox's models are downloaded."""
    for name in ("model.enpt.intgemm.alphas.bin.gz", "vocab.enpt.spm.gz"):
        (folder / name).touch()


def half_unpacked(folder: Path) -> None:
    (folder / "model.enpt.intgemm.alphas.bin").touch()
    (folder / "vocab.enpt.spm.gz").touch()


def old(write: Any) -> Any:
    return lambda folder: (write(folder) / "tokenizer.json").rename(folder / "vocab.txt")


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (
            translator("bart"),
            r"model_type 'bart'\. The served translation models are .*opus-mt-en-de",
        ),
        (translator("umt5"), "The served translation models are"),
        (translator("fsmt"), "The served translation models are"),
        (compressed, r"model\.enpt\.intgemm\.alphas\.bin\.gz, .* must be unpacked: `gunzip"),
        (half_unpacked, r"0 files vocab\*\.spm\. vocab\.enpt\.spm\.gz must be unpacked"),
        (old(write_encoder), r"vocab\.txt cannot replace tokenizer\.json\. .*save_pretrained"),
        (old(write_model), r"vocab\.txt cannot replace tokenizer\.json\. .*save_pretrained"),
        (llm, r"model_type is 'llama', supported: bert, roberta"),
    ],
)
def test_refusal_names_a_way_out(tmp_path: Path, make: Any, advice: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    make(folder)
    with pytest.raises(CheckpointError, match=advice):
        find_all(str(folder))
