"""Writes Hugging Face folders of translation models with random weights, with transformers."""

import io
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from model.config import ModelConfig
from model.sequence import Sequence

SOURCE_TEXT = ["the house is small", "a small house stands there", "is the big tree here"]
TARGET_TEXT = ["das Haus ist klein", "ein kleines Haus steht dort", "ist der große Baum hier"]
SIGNS = ["<s>", "<pad>", "</s>", "<unk>"]
SENTENCE = "the small tree is here"


def transformers() -> Any:
    """Imports the package transformers, which takes seconds of CPU time, when a test needs it."""
    return import_module("transformers")


def new_model(name: str, **config: Any) -> Any:
    """Makes a model of transformers with random weights."""
    kind = getattr(transformers(), name)
    return kind(kind.config_class(**config))


@cache
def pieces_model(sentences: tuple[str, ...], vocab_size: int = 45, **options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 30),
        model_writer=model,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


def write_pieces(folder: Path, tokens: list[str], is_joint: bool = False) -> dict[str, int]:
    """Writes source.spm, target.spm and vocab.json as OPUS-MT does, and returns the ids."""
    texts = [SOURCE_TEXT + TARGET_TEXT] * 2 if is_joint else [SOURCE_TEXT, TARGET_TEXT]
    models = [pieces_model(tuple(text)) for text in texts]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    names = [*pieces_of(models[0]), *pieces_of(models[1])]
    pieces = list(dict.fromkeys(["</s>", "<unk>", *tokens, *names, "<pad>"]))
    ids = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return ids


def write_marian(
    folder: Path, tokens: tuple[str, ...] = (), is_joint: bool = False, **changes: Any
) -> Any:
    """Writes a folder of a MarianMT model, and returns the model of transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = write_pieces(folder, list(tokens), is_joint)
    settings: dict[str, Any] = {
        "vocab_size": len(ids),
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "scale_embedding": True,
        "activation_function": "swish",
        "pad_token_id": ids["<pad>"],
        "decoder_start_token_id": ids["<pad>"],
        "eos_token_id": ids["</s>"],
        "forced_eos_token_id": None,
        "max_position_embeddings": 64,
    }
    model = new_model("MarianMTModel", **{**settings, **changes})
    randomize(model, seed=3)
    model.save_pretrained(folder)
    return model


def write_multilingual(
    folder: Path, kind: str, languages: list[str], spare: int = 3, **changes: Any
) -> int:
    """Writes a folder of an `m2m`, `nllb` or `small` model.

    Returns:
        The number of its pieces and special tokens.
    """
    folder.mkdir(parents=True)
    pieces = pieces_model(tuple(SOURCE_TEXT))
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    names = [*SIGNS, *pieces_of(pieces)]
    if kind == "small":
        (folder / "tokenization_small100.py").write_text("raise SystemExit", encoding="utf-8")
    if kind != "nllb":
        names = [*SIGNS, *reversed(names[4:])]  # arbitrary ids, other than those of the pieces
        ids = {name: number for number, name in enumerate(names)}
        (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    special = {"additional_special_tokens": languages}
    (folder / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    of_a_side = {"layers": 2, "attention_heads": 2, "ffn_dim": 32}
    sizes = {
        f"{side}_{part}": number
        for side in ("encoder", "decoder")
        for part, number in of_a_side.items()
    }
    # SMaLL-100 chooses its first target token; with scaled, tied embeddings that would be EOS.
    sizes |= {"scale_embedding": kind != "small", "d_model": 16}
    size = len(names) + len(languages) + spare
    model = new_model("M2M100ForConditionalGeneration", **{"vocab_size": size, **sizes, **changes})
    randomize(model, seed=2)
    model.save_pretrained(folder)
    return len(names)


def save_tokenizer(folder: Path, kind: str, name: str, pieces: bytes, **options: Any) -> Any:
    """Saves a tokenizer of transformers, made of a SentencePiece file, as `tokenizer.json` alone.

    `name` is the name that transformers expects of the SentencePiece file, which is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(pieces)
    theirs = getattr(transformers(), kind).from_pretrained(str(folder), **options)
    (folder / name).unlink()
    theirs.save_pretrained(folder)
    assert (folder / "tokenizer.json").is_file()
    return theirs


def greedy_targets(model: Any, sequences: list[Sequence], config: ModelConfig) -> list[list[int]]:
    """Returns the targets of a model of transformers, given the limits of our config."""
    return [
        model.generate(
            torch.tensor([each.source]),
            do_sample=False,
            num_beams=1,
            max_new_tokens=config.max_target_tokens(len(each.source)),
            suppress_tokens=config.forbidden_ids,
            forced_bos_token_id=each.first_id,
        )[0, 1:].tolist()
        for each in sequences
    ]


def randomize(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" not in name:
                noise = torch.randn(value.shape, generator=generator)
                value.copy_(1 + 0.2 * noise if "norm.weight" in name else 0.3 * noise)
    model.eval()
