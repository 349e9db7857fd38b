"""Writes folders of CTranslate2 with its own converters, and a model of OpenNMT-py's shape."""

import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from ctranslate2.converters import MarianConverter, TransformersConverter
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from safetensors.numpy import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from tests.checkpoint_folders import write_opus
from tests.hf_files import SOURCE_TEXT, TARGET_TEXT, pieces_model, write_marian, write_multilingual

WIDTH, FFN, HEADS = 64, 128, 2
SIZES: dict[str, Any] = {
    "d_model": WIDTH,
    **{f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": FFN for side in ("encoder", "decoder")},
}
LANGUAGES = ["deu_Latn", "eng_Latn"]


def write_original(folder: Path) -> None:
    """Writes a MarianMT folder. As in real ones, the embedding of <pad> is zero."""
    write_marian(folder, **SIZES)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"][-1] = 0
    save_file(tensors, folder / "model.safetensors")


def write_trained(folder: Path) -> None:
    """Writes a MarianMT folder whose model has learned to translate SOURCE_TEXT.

    Its two sides have one SentencePiece model, as in Argos packages.
    """
    model = write_marian(folder, is_joint=True, **SIZES, dropout=0.0)
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))

    def tensor_of(text: str) -> torch.Tensor:
        return torch.tensor([ids[each] for each in [*pieces.encode(text, out_type=str), "</s>"]])

    sources, labels = (
        pad_sequence([tensor_of(text) for text in texts], batch_first=True, padding_value=-100)
        for texts in (SOURCE_TEXT, TARGET_TEXT)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3)
        model.model.shared.weight[ids["<pad>"]] = 0  # as in real models
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(100):
        optimizer.zero_grad()
        mask = sources >= 0
        loss = model(input_ids=sources.clamp_min(0), attention_mask=mask, labels=labels).loss
        loss.backward()
        model.model.shared.weight.grad[ids["<pad>"]] = 0
        optimizer.step()
    model.save_pretrained(folder)


def convert_marian(folder: Path, quantization: str | None = None) -> None:
    original = folder.parent / "opus-mt-en-de"
    write_original(original)
    convert(original, folder, quantization, ["source.spm", "target.spm"])


def convert(original: Path, folder: Path, quantization: str | None, copied: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        TransformersConverter(str(original), copy_files=copied).convert(
            str(folder), quantization=quantization
        )


def convert_npz(folder: Path, quantization: str | None = None) -> None:
    """As OPUS-MT's archives are converted for Argos."""
    original = folder.parent / "archive"
    original.mkdir()
    sizes: dict[str, Any] = {"dim_emb": WIDTH, "transformer_dim_ffn": FFN}
    write_opus(original, transformer_guided_alignment_layer="last", **sizes)
    (npz,), (vocabulary,) = original.glob("*.npz"), original.glob("*.yml")
    MarianConverter(str(npz), [str(vocabulary)]).convert(str(folder), quantization=quantization)
    (folder / "sentencepiece.model").write_bytes((original / "source.spm").read_bytes())


def multilingual(
    kind: str, languages: list[str], spare: int, **changes: Any
) -> Callable[..., None]:
    def write(folder: Path, quantization: str | None = None) -> None:
        original = folder.parent / kind
        # With scaled, tied embeddings, every target would repeat one token.
        settings = {**SIZES, "scale_embedding": False, **changes}
        write_multilingual(original, kind, languages, spare, **settings)
        tokenizer = "NllbTokenizer" if kind == "nllb" else "M2M100Tokenizer"
        options = {"extra_special_tokens": languages, "tokenizer_class": tokenizer}
        (original / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")
        convert(original, folder, quantization, ["sentencepiece.bpe.model"])

    return write


def write_opennmt(
    folder: Path,
    quantization: str | None = None,
    attention_bias: bool = True,
    is_tied: bool = False,
    has_table: bool = True,
    **changes: Any,
) -> None:
    """Writes a model with sinusoids in OpenNMT-py's order, and without EOS behind a source."""
    generator = np.random.default_rng(5)
    settings = {"pre_norm": True, "activation": Activation.RELU, **changes}
    spec = TransformerSpec.from_config((2, 2), HEADS, **settings)
    pieces = pieces_model((*SOURCE_TEXT, *TARGET_TEXT))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.model").write_bytes(pieces)
    tokens = ["<unk>", "<blank>", "<s>", "</s>", *_names(pieces)]

    def values(*shape: int) -> Any:
        return (0.2 * generator.standard_normal(shape)).astype(np.float32)

    for side in (spec.encoder, spec.decoder):
        fill_side(side, values, attention_bias)
        if has_table:  # without one, CTranslate2 computes that of OpenNMT-tf
            side.position_encodings.encodings = interleaved(100)
    source = spec.encoder.embeddings[0].weight = values(len(tokens), WIDTH)
    target = spec.decoder.embeddings.weight = source if is_tied else values(len(tokens), WIDTH)
    fill_linear(spec.decoder.projection, values, len(tokens), WIDTH)
    if is_tied:
        spec.decoder.projection.weight = target
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def fill_side(side: Any, values: Any, attention_bias: bool) -> None:
    for layer in side.layer:
        attentions = [layer.self_attention, getattr(layer, "attention", None)]
        for each in filter(None, attentions):
            rows = [3 * WIDTH, WIDTH] if len(each.linear) == 2 else [WIDTH, 2 * WIDTH, WIDTH]
            for into, size in zip(each.linear, rows, strict=True):
                fill_linear(into, values, size, WIDTH, attention_bias)
            fill_norm(each.layer_norm, values)
        fill_linear(layer.ffn.linear_0, values, FFN, WIDTH)
        fill_linear(layer.ffn.linear_1, values, WIDTH, FFN)
        fill_norm(layer.ffn.layer_norm, values)
    if hasattr(side, "layer_norm"):
        fill_norm(side.layer_norm, values)


def fill_linear(
    into: LinearSpec, values: Any, rows: int, columns: int, has_bias: bool = True
) -> None:
    into.weight = values(rows, columns)
    if has_bias:
        into.bias = values(rows)


def fill_norm(into: LayerNormSpec, values: Any) -> None:
    into.gamma, into.beta = 1 + values(WIDTH), values(WIDTH)


def _names(pieces: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    return [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]


def interleaved(length: int) -> Any:
    frequencies = 10000.0 ** -(np.arange(0, WIDTH, 2) / WIDTH)
    angles = np.arange(length)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1).astype("f4")


def write_package(path: Path, folder: Path, prefix: str = "translate-en_de-1_0/") -> None:
    """Packs a converted folder as an Argos package."""
    metadata = {"package_version": "1.0", "from_code": "en", "to_code": "de"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{prefix}metadata.json", json.dumps(metadata))
        archive.writestr(f"{prefix}stanza/en/tokenize.pt", b"not read")
        for file in folder.iterdir():
            place = prefix if file.suffix == ".model" else f"{prefix}model/"
            archive.write(file, f"{place}{file.name}")
