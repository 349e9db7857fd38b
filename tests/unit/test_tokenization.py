from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.checkpoints.load import ModelFiles
from model.errors import CheckpointFormatError
from model.tokenization import WORD_START, Tokenizer

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


def test_end_and_unknown_leave_no_trace(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Good morning")
    assert tokenizer.decode([*ids, tokenizer.unk_id, tokenizer.eos_id]) == "Good morning"


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


@settings(deadline=None, max_examples=200)
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


@pytest.mark.parametrize("content", [None, b"", b"not a vocabulary", bytes(1000)])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "vocab.enpt.spm"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointFormatError, match=r"vocab\.enpt\.spm is not a SentencePiece"):
        Tokenizer(path)


def test_a_vocabulary_cut_short_is_refused_or_is_smaller(
    tmp_path: Path, built_in: ModelFiles
) -> None:
    """A cut between two pieces leaves a file that is whole by its own rules; its size does not
    fit the weights then (`check_vocabularies`)."""
    whole, path = built_in.source_vocab.read_bytes(), tmp_path / "vocab.enpt.spm"
    sizes = []
    for length in range(1, len(whole), len(whole) // 20):
        path.write_bytes(whole[:length])
        try:
            sizes.append(Tokenizer(path).vocab_size)
        except CheckpointFormatError:
            sizes.append(0)
    assert max(sizes) < 32000
    assert sizes.count(0) > 10


def test_a_vocabulary_without_an_end_of_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocab.enpt.spm"
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a few words", "and a few more"]),
            model_writer=file,
            vocab_size=14,
            bos_id=-1,
            eos_id=-1,
            minloglevel=2,
        )
    with pytest.raises(CheckpointFormatError, match="has no end-of-sentence token"):
        Tokenizer(path)
