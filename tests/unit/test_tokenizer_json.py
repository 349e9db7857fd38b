"""SentencePiece models that are made of a `tokenizer.json`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models, pre_tokenizers

from model.errors import CheckpointError, CheckpointFormatError, UnsupportedModelError
from model.tokenization.tokenizer import Tokenizer
from model.tokenization.tokenizer_json import sentencepiece_model
from tests.hf_files import SOURCE_TEXT, pieces_model, save_tokenizer
from tests.text_tokenizers import write_tokenizer
from tests.tiny_text import write_json

MANY = [["a", 0.0]] * 300
T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def test_every_field_is_that_of_the_original_file(tmp_path: Path) -> None:
    pieces = pieces_model(tuple(SOURCE_TEXT), **T5_IDS)
    save_tokenizer(tmp_path, "T5Tokenizer", "spiece.model", pieces, extra_ids=2)
    proto: Any = sentencepiece_model_pb2
    made, original = proto.ModelProto(), proto.ModelProto()
    made.ParseFromString(sentencepiece_model(tmp_path / "tokenizer.json"))
    original.ParseFromString(pieces)
    known = [(each.piece, each.score, each.type) for each in original.pieces]
    assert [(each.piece, each.score, each.type) for each in made.pieces] == [
        *known,
        ("<extra_id_1>", 0, 3),
        ("<extra_id_0>", 0, 3),
    ]
    assert made.trainer_spec.model_type == original.trainer_spec.model_type
    spec = original.normalizer_spec
    assert made.normalizer_spec.precompiled_charsmap == spec.precompiled_charsmap


@pytest.mark.parametrize(
    "merges", [["▁ a", "b c", "▁a bc"], [["▁", "a"], ["b", "c"], ["▁a", "bc"]]]
)
def test_bytes_and_gaps_between_ids_are_kept(tmp_path: Path, merges: list[Any]) -> None:
    names = ["<unk>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *"▁abc", "▁a", "bc", "▁abc"]
    made = FastTokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    content = json.loads(made.to_str())
    content["model"] |= {"vocab": {name: i for i, name in enumerate(names)}, "merges": merges}
    content["added_tokens"] = [{"id": 1, "content": "</s>"}, {"id": 270, "content": "<2de>"}]
    write_json(tmp_path / "tokenizer.json", content)
    tokenizer = Tokenizer(tmp_path / "tokenizer.json")
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.unk_id) == (271, 1, 0)
    assert tokenizer.pieces([269, 270]) == ["<unused 269>", "<2de>"]
    ids = tokenizer.encode("abcé abc")
    assert tokenizer.pieces(ids) == ["▁abc", "<0xC3>", "<0xA9>", "▁abc"]
    assert tokenizer.decode(ids) == "abcé abc"


def change(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(content: dict[str, Any]) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return apply


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (change("model", "type", value="WordPiece"), UnsupportedModelError, "model is 'WordPiece'"),
        (change("decoder", value=None), UnsupportedModelError, "no ▁ in place of spaces"),
        (change("normalizer", "type", value="NFC"), UnsupportedModelError, "normalizer has a NFC"),
        (change("model", "vocab", value=[["a"]]), CheckpointFormatError, "is not a tokenizer"),
        (change("model", "vocab", value=[*MANY, ["b", 1e300]]), CheckpointFormatError, "Overflow"),
        (
            change("model", "vocab", value=[*MANY, ["\ud800", 0.0]]),
            CheckpointFormatError,
            "UnicodeEncode",
        ),
        (change("added_tokens", value=None), CheckpointFormatError, "is not a tokenizer"),
        (
            change("added_tokens", value=[{"id": 1 << 40, "content": "x"}]),
            CheckpointFormatError,
            "has the id 1099511627776, and the limit is 1048575",
        ),
    ],
)
def test_file_that_cannot_be_read_is_refused(
    tmp_path: Path,
    damage: Callable[[dict[str, Any]], None],
    kind: type[CheckpointError],
    message: str,
) -> None:
    save_tokenizer(
        tmp_path, "T5Tokenizer", "spiece.model", pieces_model(tuple(SOURCE_TEXT), **T5_IDS)
    )
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    damage(content)
    write_json(path, content)
    with pytest.raises(kind, match=message):
        Tokenizer(path)


def test_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("[", encoding="utf-8")
    with pytest.raises(CheckpointFormatError, match="is not a tokenizer"):
        Tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(UnsupportedModelError, match="no ▁ in place of spaces"):
        Tokenizer(write_tokenizer("byte-level BPE", tmp_path))
