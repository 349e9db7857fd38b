"""Hugging Face folders of translation models with random weights, as transformers writes them."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel

SOURCE_TEXT = ["the house is small", "a small house stands there", "is the big tree here"]
TARGET_TEXT = ["das Haus ist klein", "ein kleines Haus steht dort", "ist der große Baum hier"]
SENTENCE = "the small tree is here"


@cache
def pieces_model(sentences: tuple[str, ...]) -> bytes:
    """A `.spm` file trained on a few sentences."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 30),
        model_writer=model,
        vocab_size=45,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """Its pieces, less those that stand for no text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


def write_pieces(folder: Path, tokens: list[str]) -> dict[str, int]:
    """Writes source.spm, target.spm and vocab.json as OPUS-MT has them; the ids."""
    models = [pieces_model(tuple(text)) for text in (SOURCE_TEXT, TARGET_TEXT)]
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    names = [*pieces_of(models[0]), *pieces_of(models[1])]
    pieces = list(dict.fromkeys(["</s>", "<unk>", *tokens, *names, "<pad>"]))
    ids = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return ids


def write_marian(folder: Path, tokens: tuple[str, ...] = (), **changes: Any) -> MarianMTModel:
    """A whole folder of a MarianMT model; the model as transformers has it."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = write_pieces(folder, list(tokens))
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
    model = MarianMTModel(MarianConfig(**{**settings, **changes}))
    randomize(model, seed=3)
    model.save_pretrained(folder)
    return model


def randomize(model: Any, seed: int) -> None:
    """Weights large enough that targets differ."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" not in name:
                noise = torch.randn(value.shape, generator=generator)
                value.copy_(1 + 0.2 * noise if "norm.weight" in name else 0.3 * noise)
    model.eval()
