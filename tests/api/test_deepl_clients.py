"""DeepL's real client gets translations, languages, usage, and its own exceptions."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import deepl
import pytest
from deepl import api_data, http_client

from tests.api.conftest import ServeLive
from tests.api.servers import LiveServer

KEY = "key-of-the-test"
CAT, HOUSE = "The cat sleeps in the house.", "The house is old and red."


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, and no repeated request."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(http_client, "max_network_retries", 0)


def client_of(server: LiveServer, key: str = KEY) -> deepl.Translator:
    return deepl.Translator(key, server_url=f"http://127.0.0.1:{server.port}")


@pytest.fixture
def server(serve_live: ServeLive) -> LiveServer:
    return serve_live(api_keys=KEY)


@pytest.fixture
def client(server: LiveServer) -> Iterator[deepl.Translator]:
    client = client_of(server)
    yield client
    client.close()  # type: ignore[no-untyped-call]


def test_texts_languages_and_usage(client: deepl.Translator) -> None:
    one = client.translate_text(CAT, target_lang="PT-BR")
    assert isinstance(one, deepl.TextResult)
    assert (one.text, one.detected_source_lang, one.billed_characters) == (CAT, "EN", len(CAT))
    several = client.translate_text([CAT, "", HOUSE], source_lang="EN", target_lang="PT-PT")
    assert isinstance(several, list)
    assert [each.text for each in several] == [CAT, "", HOUSE]
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [each.code for each in sources] == ["EN", "PT"]
    assert [each.code for each in targets] == ["EN-GB", "EN-US", "PT-BR", "PT-PT"]
    assert {each.supports_formality for each in targets} == {False}
    usage = client.get_usage()
    assert usage.character.count == 2 * len(CAT) + len(HOUSE)
    assert not usage.any_limit_reached


def test_faults_are_the_clients_own_exceptions(
    server: LiveServer, client: deepl.Translator
) -> None:
    with pytest.raises(deepl.DeepLException, match="Value for 'target_lang' not supported"):
        client.translate_text(CAT, target_lang="ZZ")
    with pytest.raises(deepl.DeepLException, match="Tag handling parsing failed, please check"):
        client.translate_text("<b>", target_lang="PT-BR", tag_handling="xml")
    stranger = client_of(server, "wrong")
    with pytest.raises(deepl.AuthorizationException, match="check auth_key"):
        stranger.get_usage()
    stranger.close()  # type: ignore[no-untyped-call]


def test_glossaries(serve_live: ServeLive, tmp_path: Path) -> None:
    server = serve_live(state=str(tmp_path))
    with closing(deepl.DeepLClient("any", server_url=f"http://127.0.0.1:{server.port}")) as client:
        pairs = {(each.source_lang, each.target_lang) for each in client.get_glossary_languages()}
        assert pairs == {("en", "pt"), ("pt", "en")}
        entries = {"cat": "felino", "house": "mansão"}
        glossary = client.create_glossary("Estate", "EN", "PT-BR", entries)
        assert (glossary.entry_count, glossary.ready) == (2, True)
        assert client.get_glossary(glossary.glossary_id).creation_time == glossary.creation_time
        assert client.get_glossary_entries(glossary) == entries
        result = client.translate_text(
            CAT, source_lang="EN", target_lang="PT-BR", glossary=glossary
        )
        assert str(result) == "The felino sleeps in the mansão."
        assert [each.name for each in client.list_glossaries()] == ["Estate"]
        client.delete_glossary(glossary)
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.get_glossary(glossary.glossary_id)
        with pytest.raises(deepl.DeepLException, match="Glossary not found"):
            client.translate_text(CAT, source_lang="EN", target_lang="PT-BR", glossary=glossary)


def test_multilingual_glossaries(serve_live: ServeLive, tmp_path: Path) -> None:
    server = serve_live(state=str(tmp_path))
    entries_of = api_data.MultilingualGlossaryDictionaryEntries
    with closing(deepl.DeepLClient("any", server_url=f"http://127.0.0.1:{server.port}")) as client:
        both = [entries_of("EN", "PT", {"cat": "felino"}), entries_of("PT", "EN", {"mar": "sea"})]
        glossary = client.create_multilingual_glossary("Both", both)
        assert [each.entry_count for each in glossary.dictionaries] == [1, 1]
        result = client.translate_text(
            CAT, source_lang="EN", target_lang="PT-BR", glossary=glossary
        )
        assert str(result) == "The felino sleeps in the house."
        assert client.update_multilingual_glossary_name(glossary, "New").name == "New"
        assert client.get_multilingual_glossary(glossary.glossary_id).name == "New"
        more = entries_of("EN", "PT", {"house": "casa"})
        changed = client.update_multilingual_glossary_dictionary(glossary, more)
        assert changed.dictionaries[0].entry_count == 2
        info = client.replace_multilingual_glossary_dictionary(glossary, more)
        assert (info.source_lang, info.target_lang, info.entry_count) == ("EN", "PT", 1)
        reply = client.get_multilingual_glossary_entries(glossary, "EN", "PT-BR")
        assert [str(each.entries) for each in reply.dictionaries] == ["house\tcasa"]
        client.delete_multilingual_glossary_dictionary(glossary, info)
        (listed,) = client.list_multilingual_glossaries()
        assert [each.source_lang for each in listed.dictionaries] == ["PT"]
        client.delete_multilingual_glossary(glossary)
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.get_multilingual_glossary(glossary.glossary_id)


def test_tags(client: deepl.Translator) -> None:
    xml = '<d><p>One <x id="1"></x> &amp; two.</p><c>a = 1</c></d>'
    result = client.translate_text(
        xml,
        target_lang="PT-BR",
        source_lang="EN",
        tag_handling="xml",
        ignore_tags=["x", "c"],
        splitting_tags=["p"],
        non_splitting_tags="i",
    )
    assert str(result) == xml
    html = "<p>One &amp; two.</p>"
    assert str(client.translate_text(html, target_lang="PT-BR", tag_handling="html")) == html
