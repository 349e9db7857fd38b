from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.checkpoints.load import ModelFiles
from model.errors import CheckpointFormatError
from model.tokenization.tokenizer import WORD_START, TokenizedText, Tokenizer
from tests.hf_files import pieces_model

TEXTS = [
    "Hello, world.",
    "She sells sea shells by the sea shore.",
    "Não há açúcar, só café com leite.",
    "3.14 is not 22/7.",
]


@pytest.fixture(scope="module")
def tokenizer(built_in: ModelFiles) -> Tokenizer:
    return Tokenizer(built_in.source_vocab)


def test_special_ids_are_those_of_the_file(tokenizer: Tokenizer) -> None:
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.unk_id) == (32000, 0, 1)
    assert tokenizer.pieces([tokenizer.eos_id, tokenizer.unk_id]) == ["</s>", "<unk>"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_of_known_pieces_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.eos_id not in ids
    assert "".join(tokenizer.pieces(ids)) == WORD_START + text.replace(" ", WORD_START)


@pytest.mark.parametrize("text", ["", " ", " \t\n "])
def test_white_space_alone_has_no_ids(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == []
    assert tokenizer.encode_with_offsets(text).ids == []


def test_runs_of_white_space_become_one_space(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("  two \n\t words ")) == "two words"


@given(st.lists(st.integers(0, 31999) | st.integers(0, 20), max_size=8))
@example([13, 13, 5, 5])  # two spaces at the start
@example([0, 13, 1, 4])
def test_any_ids_have_the_text_of_sentencepiece(tokenizer: Tokenizer, ids: list[int]) -> None:
    shown = [i for i in ids if i not in (tokenizer.eos_id, tokenizer.unk_id)]
    assert tokenizer.pieces([13]) == [WORD_START]
    assert tokenizer.decode(ids) == tokenizer.processor.decode(shown)


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_give_each_piece_its_text(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode_with_offsets(text)
    slices = [text[start:end] for start, end in encoding.offsets]
    assert [piece.replace(WORD_START, " ") for piece in encoding.pieces][0] == " " + slices[0]
    assert [piece.replace(WORD_START, " ") for piece in encoding.pieces][1:] == slices[1:]
    assert "".join(slices) == text


def test_offsets_count_code_points_not_bytes(tokenizer: Tokenizer) -> None:
    """An offset in bytes would be 4 too far after the emoji and 5 after the accent."""
    text = "😀 é here"
    encoding = tokenizer.encode_with_offsets(text)
    assert text[slice(*encoding.offsets[-1])] == " here"
    assert encoding.offsets[-1] == (3, 8)


def test_word_of_one_piece_is_known_without_its_letters(tmp_path: Path) -> None:
    """Chinese and Japanese vocabularies have such words."""
    path = tmp_path / "words.spm"
    path.write_bytes(pieces_model(("Zayat sees the tree",), 60, model_type="word"))
    tokenizer = Tokenizer(path)
    assert tokenizer.unk_id in tokenizer.encode("Z")
    assert tokenizer.unknown_spans("Zayat sees the tree") == []
    assert tokenizer.unknown_spans("the Zorn sees Zayat") == [(4, 8)]
    assert tokenizer.unknown_spans("the \ud800 tree") == [(4, 5)]


@pytest.mark.parametrize(
    ("text", "lowered", "spans"),
    [
        ("Índice: Às vezes é Útil.", "índice: às vezes é útil.", []),
        ("NÃO ABRA A ATENÇÃO", "não ABRA A atenção", []),
        ("CAMARÃO", "Camarão", []),
        ("ÂNGELA", "ângela", []),
        ("Ângela viu Ítalo.", "Ângela viu Ítalo.", [(0, 1), (11, 12)]),
        ("Öl ÖL Õ", "Öl ÖL Õ", [(0, 1), (3, 4), (6, 7)]),
        ("Ele é bom", "Ele é bom", []),
        ("Índice €5", "índice €5", [(7, 8)]),
    ],
)
def test_capital_letter_is_known_if_its_word_is_one_piece_in_lower_case(
    tokenizer: Tokenizer, text: str, lowered: str, spans: list[tuple[int, int]]
) -> None:
    """The built-in vocabularies have `▁índice`, but no `Í`."""
    assert tokenizer.unk_id in tokenizer.encode("Í")
    assert tokenizer.unknown_spans(text) == spans
    assert tokenizer.lowered(text) == lowered


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@example(text="\ufb01ne \u00bd \u3000 e\u0301\u0323 \u200b\0 \U0001f468\u200d\U0001f469")
def test_offsets_run_through_any_text_in_order(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode_with_offsets(text)
    assert encoding.ids == tokenizer.encode(text)
    assert len(encoding.ids) == len(encoding.pieces) == len(encoding.offsets)
    assert all(0 <= i < tokenizer.vocab_size for i in encoding.ids)
    last = 0
    for start, end in encoding.offsets:
        assert last <= start <= end <= len(text)
        last = end


@pytest.fixture(scope="module")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One whose vocabulary has every byte, and few pieces besides."""
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.spm"
    sentences = "the cat sat on the mat.", "a few words and a few more"
    signs = {"bos_id": -1, "eos_id": 0, "unk_id": 1}
    path.write_bytes(pieces_model(sentences, 300, byte_fallback=True, **signs))
    return Tokenizer(path)


@given(st.lists(st.integers(0, 299), max_size=8))
def test_bytes_become_characters(byte_tokenizer: Tokenizer, ids: list[int]) -> None:
    shown = [i for i in ids if i not in byte_tokenizer.hidden_ids]
    assert byte_tokenizer.decode(ids) == byte_tokenizer.processor.decode(shown)


def slices(tokenized: TokenizedText) -> list[str]:
    return [tokenized.text[start:end] for start, end in tokenized.offsets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The (really)", ["The", "(", "re", "ally", ")", ""]),
        ("  The  cat\n\t ", ["The", "cat", ""]),
        ("\ufb01ne caf\u0065\u0301", ["\ufb01ne", "cafe\u0301", ""]),
        ("\uff11\uff12 \uff46\uff55\uff4c\uff4c", ["\uff11\uff12", "\uff46\uff55\uff4c\uff4c", ""]),
        ("x\u200by\x07", ["x", "y", ""]),
        ("is \u00bd", ["is", "\u00bd", "\u00bd", "\u00bd", ""]),
        ("\U0001f600 hi\U0001f600", ["", "\U0001f600", "hi", "\U0001f600", ""]),
        ("\u4e2d\u6587 \u5b57", ["", "\u4e2d\u6587", "", "\u5b57", ""]),
        ("", [""]),
        (" \n", [""]),
    ],
)  # fmt: skip
def test_token_is_shown_by_its_own_characters(
    tokenizer: Tokenizer, text: str, expected: list[str]
) -> None:
    tokenized = tokenizer.tokenize(text)
    assert slices(tokenized) == expected
    assert tokenized.ids == [*tokenizer.encode(text), tokenizer.eos_id]
    assert tokenized.pieces == tokenizer.pieces(tokenized.ids)
    assert tokenized.special == [False] * (len(expected) - 1) + [True]
    assert tokenized.offsets[-1] == (len(text), len(text))


def test_bytes_of_a_character_all_have_its_place(byte_tokenizer: Tokenizer) -> None:
    tokenized = byte_tokenizer.tokenize("a \U0001f600\u00e9.")
    assert slices(tokenized) == ["a", "", *4 * ["\U0001f600"], *2 * ["\u00e9"], ".", ""]
    again = byte_tokenizer.detokenize(tokenized.ids)
    assert (again.text, again.offsets) == (tokenized.text, tokenized.offsets)


def assert_places(tokenized: TokenizedText) -> None:
    """In order, inside the text, without white space at the ends, and covering every letter."""
    text, offsets = tokenized.text, tokenized.offsets
    assert len(tokenized.ids) == len(tokenized.pieces) == len(offsets) == len(tokenized.special)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    assert all(a <= c and b <= d for (a, b), (c, d) in pairwise(offsets))
    assert slices(tokenized) == [shown.strip() for shown in slices(tokenized)]


def covered(tokenized: TokenizedText) -> set[int]:
    return {at for start, end in tokenized.offsets for at in range(start, end)}


HARD = (
    "a1 .-\n\u00e9\u0301\u0323\ufb01\u00bd\uff11\u4e2d\U0001f600\u200d\u200b\u3000\u2581\ufdfa\x07"
)


@given(
    text=st.text(HARD, max_size=20) | st.text(st.characters(exclude_categories=["Cs"])),
    has_bytes=st.booleans(),
)
def test_places_in_any_text(
    tokenizer: Tokenizer, byte_tokenizer: Tokenizer, text: str, has_bytes: bool
) -> None:
    used = byte_tokenizer if has_bytes else tokenizer
    tokenized = used.tokenize(text)
    assert_places(tokenized)
    letters = {
        at for at, char in enumerate(text) if char.isalnum() and used.processor.normalize(char)
    }
    assert letters <= covered(tokenized)


@given(data=st.data(), has_bytes=st.booleans())
def test_places_in_what_any_ids_say(
    tokenizer: Tokenizer, byte_tokenizer: Tokenizer, data: st.DataObject, has_bytes: bool
) -> None:
    """Also ids that no text leads to: spaces at the end, halves of characters, EOS inside."""
    used = byte_tokenizer if has_bytes else tokenizer
    ids = data.draw(st.lists(st.integers(0, 20) | st.integers(0, used.vocab_size - 1)))
    tokenized = used.detokenize(ids)
    assert tokenized.text == used.decode(ids)
    assert tokenized.ids == ids
    assert_places(tokenized)
    assert {at for at, c in enumerate(tokenized.text) if not c.isspace()} <= covered(tokenized)


def test_generated_tokens_are_placed_in_their_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Good old morning.")
    tokenized = tokenizer.detokenize([*ids[:2], tokenizer.unk_id, *ids[2:], tokenizer.eos_id])
    assert tokenized.text == "Good old morning."
    assert slices(tokenized) == ["Good", "old", "", "morning", ".", ""]
    assert tokenized.special == [False] * 5 + [True]
    assert tokenized.offsets[2] == (9, 9)
    assert tokenized.offsets[-1] == (17, 17)


@pytest.mark.parametrize("content", [None, b"", b"not a vocabulary", bytes(1000)])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "vocab.enpt.spm"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointFormatError, match=r"vocab\.enpt\.spm is not a SentencePiece"):
        Tokenizer(path)


def test_a_vocabulary_without_an_end_of_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.enpt.spm"
    path.write_bytes(pieces_model(("a few words", "and a few more"), 14, bos_id=-1, eos_id=-1))
    with pytest.raises(CheckpointFormatError, match="has no end-of-sentence token"):
        Tokenizer(path)


def test_piece_that_is_not_utf8_is_refused(built_in: ModelFiles, tmp_path: Path) -> None:
    """The model loaded, and the first request for its pieces ended in an error."""
    content = built_in.source_vocab.read_bytes()
    piece = "\u2581the".encode()
    damaged = tmp_path / "vocab.spm"
    damaged.write_bytes(content.replace(piece, piece[:3] + b"\xffhe", 1))
    with pytest.raises(CheckpointFormatError, match=r"^vocab\.spm is not a SentencePiece model"):
        Tokenizer(damaged)
