"""Glossaries: their store, their entries, and their terms in sentences."""

import asyncio
import threading
import time
import uuid
from pathlib import Path

import pytest

from service.errors import InvalidRequestError, NotFoundError, RequestTooLargeError
from service.state import glossaries as glossaries_module
from service.state.database import Database
from service.state.glossaries import KEPT_TERMS, Dictionary, DictionaryInfo, GlossaryStore
from service.text.glossary import EntriesFormat, Terms, missing_terms, read_entries, write_tsv

ENPT = Dictionary("en", "pt", {"house": "mansão", "cat": "felino"})
PTEN = Dictionary("pt", "en", {"casa": "mansion"})


@pytest.fixture
def store(tmp_path: Path) -> GlossaryStore:
    return GlossaryStore(Database(str(tmp_path)))


def terms(store: GlossaryStore, *ids: str) -> Terms:
    return asyncio.run(store.terms(ids, "en", "pt"))


def targets(store: GlossaryStore, sentence: str, *ids: str) -> list[str]:
    return [match.target for match in terms(store, *ids).find(sentence)]


def test_glossary_comes_back_in_every_process(store: GlossaryStore, tmp_path: Path) -> None:
    created = store.create("Estate", [PTEN, ENPT])
    assert uuid.UUID(created.glossary_id).version == 4
    assert created.name == "Estate"
    assert created.creation_time.endswith("Z")
    expected = (DictionaryInfo("pt", "en", 1), DictionaryInfo("en", "pt", 2))
    assert created.dictionaries == expected
    other = GlossaryStore(Database(str(tmp_path)))
    assert other.get(created.glossary_id) == created
    assert other.all() == [created]
    assert other.entries(created.glossary_id, "en", "pt") == ENPT.entries
    assert targets(other, "a cat", created.glossary_id) == ["felino"]


def test_glossaries_are_listed_the_oldest_first(store: GlossaryStore) -> None:
    names = ["b", "a", "a"]
    for name in names:
        store.create(name, [ENPT])
    assert [each.name for each in store.all()] == names


def test_deleted_glossary_and_dictionary_are_gone(store: GlossaryStore) -> None:
    first, second = (store.create(name, [ENPT, PTEN]).glossary_id for name in ("a", "b"))
    store.remove_dictionary(first, "en", "pt")
    assert store.get(first).dictionaries == (DictionaryInfo("pt", "en", 1),)
    store.remove(first)
    assert [each.glossary_id for each in store.all()] == [second]
    assert store.entries(second, "en", "pt") == ENPT.entries


def test_terms_are_those_of_the_last_change(store: GlossaryStore, tmp_path: Path) -> None:
    glossary = store.create("Estate", [ENPT]).glossary_id
    assert targets(store, "a cat", glossary) == ["felino"]
    other = GlossaryStore(Database(str(tmp_path)))
    other.change(glossary, None, [Dictionary("en", "pt", {"cat": "gato"})])
    assert targets(store, "a cat", glossary) == ["gato"]
    other.remove(glossary)
    with pytest.raises(NotFoundError):
        terms(store, glossary)


def test_first_of_several_glossaries_has_priority(store: GlossaryStore) -> None:
    first = store.create("a", [Dictionary("en", "pt", {"cat": "gato"})]).glossary_id
    second, third = store.create("b", [ENPT]).glossary_id, store.create("c", [PTEN]).glossary_id
    assert targets(store, "a cat, a house", first, second, third) == ["gato", "mansão"]
    assert targets(store, "a cat, a house", second, first) == ["felino", "mansão"]


def test_terms_that_were_used_last_are_kept(store: GlossaryStore) -> None:
    ids = [store.create(str(number), [ENPT]).glossary_id for number in range(KEPT_TERMS + 1)]
    first, second, *_ = [terms(store, each) for each in ids[:-1]]
    assert terms(store, ids[0]) is first
    last = terms(store, ids[-1])  # drops the second one
    assert terms(store, ids[0]) is first
    assert terms(store, ids[-1]) is last
    assert terms(store, ids[1]) is not second


def test_number_of_kept_entries_is_limited(
    store: GlossaryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glossaries_module, "KEPT_ENTRIES", 5)
    ids = [store.create(str(number), [ENPT]).glossary_id for number in range(3)]
    kept = [terms(store, each) for each in ids]
    assert [terms(store, each) is it for each, it in zip(ids[1:], kept[1:], strict=True)] == [
        True,
        True,
    ]
    assert terms(store, ids[0]) is not kept[0]
    large = store.create("c", [Dictionary("en", "pt", dict.fromkeys("abcdef", "x"))]).glossary_id
    assert terms(store, large) is terms(store, large)


async def test_glossaries_are_stored_while_an_index_is_built(
    store: GlossaryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    built: list[object] = []

    def slow(entries: dict[str, str]) -> Terms:
        built.append(entries)
        begun.set()
        assert released.wait(60)
        return Terms(entries)

    monkeypatch.setattr(glossaries_module, "Terms", slow)
    glossary = store.create("Estate", [ENPT]).glossary_id
    waiting = [asyncio.create_task(store.terms([glossary], "en", "pt")) for _ in range(3)]
    await asyncio.to_thread(begun.wait)
    other = GlossaryStore(Database(str(tmp_path)))
    for each in (store, other):  # the same process, and another
        await each.database.call(each.create, "second", [PTEN])
    assert not any(task.done() for task in waiting)
    released.set()
    first, *others = await asyncio.gather(*waiting)
    assert all(each is first for each in others)
    assert len(built) == 1


def test_unknown_glossary_is_named_by_the_start_of_its_id(store: GlossaryStore) -> None:
    with pytest.raises(NotFoundError, match="Glossary not found") as caught:
        store.get("x" * 50)
    assert caught.value.details == f"no glossary has the id {'x' * 40}"


def test_unknown_dictionary(store: GlossaryStore) -> None:
    glossary = store.create("a", [PTEN]).glossary_id
    message = "No dictionary found for language pair en-pt"
    for use in (store.entries, store.remove_dictionary):
        with pytest.raises(NotFoundError, match=message):
            use(glossary, "en", "pt")
    with pytest.raises(InvalidRequestError, match=message):
        terms(store, glossary)


def test_number_of_glossaries_is_limited(
    store: GlossaryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glossaries_module, "MAX_GLOSSARIES", 1)
    store.create("a", [ENPT])
    with pytest.raises(InvalidRequestError, match="Too many glossaries"):
        store.create("b", [ENPT])


def test_number_of_entries_is_limited(
    store: GlossaryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glossaries_module, "MAX_ENTRIES", 2)
    glossary = store.create("a", [ENPT]).glossary_id
    more = Dictionary("en", "pt", {"sea": "mar"})
    for change in (
        lambda: store.create("b", [ENPT, more]),
        lambda: store.change(glossary, None, [more]),
        lambda: store.replace(glossary, Dictionary("en", "pt", {**ENPT.entries, "sea": "mar"})),
    ):
        with pytest.raises(RequestTooLargeError, match=r"would have 3 entries; the limit is 2"):
            change()
    assert [each.glossary_id for each in store.all()] == [glossary]
    assert store.entries(glossary, "en", "pt") == ENPT.entries


def test_size_of_all_glossaries_is_limited(
    store: GlossaryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    glossary = store.create("a", [ENPT]).glossary_id
    monkeypatch.setattr(glossaries_module, "MAX_BYTES", 1)
    with pytest.raises(InvalidRequestError, match="Too many glossaries") as caught:
        store.change(glossary, None, [PTEN])
    assert "the limit is 1; delete a glossary" in caught.value.details
    store.remove(glossary)


def test_dictionaries_of_the_same_languages_become_one(store: GlossaryStore) -> None:
    more = Dictionary("en", "pt", {"dog": "cão", "cat": "gato"})
    glossary = store.create("Estate", [ENPT, more])
    assert store.entries(glossary.glossary_id, "en", "pt") == {**ENPT.entries, **more.entries}


@pytest.mark.parametrize(
    ("text", "entries_format", "expected"),
    [
        ("a\tb", "tsv", {"a": "b"}),
        ("a\tb\r\n\n c d \te, f \n", "tsv", {"a": "b", "c d": "e, f"}),
        ("a,b\nc,d\n", "csv", {"a": "b", "c": "d"}),
        ('"a, ""b""",c\n', "csv", {'a, "b"': "c"}),
        ("a,b,en,pt\n\n", "csv", {"a": "b"}),
        ("猫\tcat", "tsv", {"猫": "cat"}),
    ],
)
def test_entries_are_read(
    text: str, entries_format: EntriesFormat, expected: dict[str, str]
) -> None:
    entries = read_entries(text, entries_format)
    assert entries == expected
    assert read_entries(write_tsv(entries), "tsv") == expected


@pytest.mark.parametrize(
    ("text", "entries_format", "reason"),
    [
        ("", "tsv", "there is no entry"),
        ("\n \n", "tsv", "there is no entry"),
        ("a", "tsv", "line 1: it has 1 column;"),
        ("a\tb\nc,d", "tsv", "line 2: it has 1 column;"),
        ("a\tb\tc", "tsv", "line 1: it has 3 columns"),
        ("a,b,c", "csv", "line 1: it has 3 columns"),
        ("a\tb\na\tc", "tsv", "line 2: the source term a is there twice"),
        ("a\t ", "tsv", "line 1: a term is empty"),
        (" \tb", "tsv", "line 1: a term is empty"),
        ("a\tb\x07", "tsv", r"line 1: 'b\x07' has a control"),
        ("a\u2028c\tb", "tsv", r"line 1: 'a\u2028c' has a control"),
        ("a\t\U000f0000", "tsv", "has a control or private-use"),
        ("a\t" + "é" * 513, "tsv", "line 1: a term has 1026 bytes in UTF-8; the limit is 1024"),
        ('"a,b', "csv", "line 1: unexpected end of data"),
    ],
)
def test_invalid_entry_is_named(text: str, entries_format: EntriesFormat, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match="^Invalid glossary entries provided$") as caught:
        read_entries(text, entries_format)
    assert reason in caught.value.details


TERMS = Terms(
    {
        "house": "mansão",
        "house boat": "casa flutuante",
        "cat": "felino",
        "US": "EUA",
        "iPhone": "telemóvel",
        "C++": "C mais mais",
        "→": "seta",
        "猫": "cat",
        "ice cream van": "carrinha",
        "मन": "mind",
        "cafe": "bar",
        "can": "lata",
        "letter": "carta",
        "green card": "carta verde",
        "api": "API",
    }
)


def found_in(sentence: str) -> list[tuple[str, str]]:
    """The source terms of a sentence as it has them, and their target terms."""
    return [(sentence[each.start : each.end], each.target) for each in TERMS.find(sentence)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The house of the cat.", [("house", "mansão"), ("cat", "felino")]),
        ("the cat's house", [("cat", "felino"), ("house", "mansão")]),
        ("cat, cat", [("cat", "felino"), ("cat", "felino")]),
        ("houses, housecat, concat, e-house, house-like, my_cat, cat_1", []),
        ("a house - a cat", [("house", "mansão"), ("cat", "felino")]),
        ("-cat-", [("cat", "felino")]),
        ("A house boat", [("house boat", "casa flutuante")]),
        ("A house\n  boat and house", [("house\n  boat", "casa flutuante"), ("house", "mansão")]),
        ("A house, boat", [("house", "mansão")]),
        ("an ice cream cat", [("cat", "felino")]),
        ("House prices", [("House", "mansão")]),
        ("The White House", [("House", "Mansão")]),
        ("A House Boat", [("House Boat", "Casa flutuante")]),
        ("HOUSE BOAT", [("HOUSE BOAT", "CASA FLUTUANTE")]),
        ("hOUSE", []),
        ("the US told us", [("US", "EUA")]),
        ("Us and Iphone", []),
        ("an iPhone, an IPHONE", [("iPhone", "telemóvel"), ("IPHONE", "TELEMÓVEL")]),
        ("C++ and C+", [("C++", "C mais mais")]),
        ("a → b", []),
        ("黒猫が", [("猫", "cat")]),
        ("मन और कामना", [("मन", "mind")]),
        ("cafe and cafe\u0301", [("cafe", "bar")]),
        ("I can, I can't, I can\u2019t, in a can", [("can", "lata"), ("can", "lata")]),
        ('"House boat', [("House boat", "casa flutuante")]),
        ("", []),
    ],
)
def test_whole_words_are_found_the_longest_first(
    sentence: str, expected: list[tuple[str, str]]
) -> None:
    assert found_in(sentence) == expected


MISSING = [
    ("the house of the cat", "A mansão do felino.", []),
    ("the house of the cat", "A Mansão, FELINO", []),
    ("the house of the cat", "A casa do felino.", ["mansão"]),
    ("the house of the cat", "A mansãozinha do felino.", ["mansão"]),
    ("the house of the cat", "O gato.", ["mansão", "felino"]),
    ("a cat, a cat, a house boat", "um felino numa casa flutuante", ["felino"]),
    ("a letter and a green card", "uma carta verde", ["carta"]),
    ("a letter and a green card", "uma carta e uma carta verde", []),
    # The target term has capitals, or gets them.
    ("our api", "o nosso api", ["API"]),
    ("our api", "a nossa API", []),
    ("our api", "API, api", []),
    ("House prices", "MANSÃO", []),
]


@pytest.mark.parametrize(("sentence", "translation", "expected"), MISSING)
def test_missing_target_terms(sentence: str, translation: str, expected: list[str]) -> None:
    found = missing_terms(TERMS.find(sentence), translation)
    assert [each.target for each in found] == expected


def test_terms_with_the_same_first_word_are_found_fast() -> None:
    """The products of one brand have such names."""
    terms = Terms({f"Acme {number}": "x" for number in range(50_000)})
    start = time.process_time()
    assert len(terms.find("Acme X and Acme 49999 " * 2_000)) == 2_000
    assert time.process_time() - start < 20


@pytest.mark.parametrize("order", [("turkey", "Turkey"), ("Turkey", "turkey")])
def test_term_with_capitals_goes_before_the_same_word_without(order: tuple[str, str]) -> None:
    targets = {"turkey": "peru", "Turkey": "Turquia"}
    terms = Terms({source: targets[source] for source in order})
    found = [each.target for each in terms.find("I eat turkey in Turkey.")]
    assert found == ["peru", "Turquia"]


def test_term_without_letters_is_stored_and_changes_no_sentence() -> None:
    entries = read_entries("...\t…\n🪨\t🪵\nhouse\tmansão", "tsv")
    assert entries == {"...": "…", "🪨": "🪵", "house": "mansão"}
    assert [each.target for each in Terms(entries).find("The house... 🪨")] == ["mansão"]
