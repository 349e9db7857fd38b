"""Folders of embedding models small enough to be made in every test, with weights from a seed."""

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from model.architectures.stack import TextEncoder
from model.checkpoints.families.text_encoders import FAMILIES, read_config
from model.checkpoints.weights import sources_of

WORDS = "[PAD] [CLS] [SEP] [UNK] un ##believ ##able hello world a b c . query :".split()
OPTIONS: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}
MODULES = ["Transformer", "Pooling", "Normalize"]
TANH = "torch.nn.modules.activation.Tanh"


def is_installed(package: str) -> bool:
    """Reports whether a package is installed; the built-in embedding model is optional."""
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def tensors(options: dict[str, Any]) -> dict[str, torch.Tensor]:
    config = read_config(options, "config.json")
    generator = torch.Generator().manual_seed(3)
    encoder = TextEncoder(config)
    shapes = {name: p.shape for name, p in encoder.named_parameters()}
    parts: dict[str, list[torch.Tensor]] = {}
    sources = sources_of(encoder, FAMILIES[options["model_type"]].names)
    for parameter, source in sources.items():
        values = torch.randn(shapes[parameter], generator=generator) * 0.3
        parts.setdefault(source.tensor, []).append(values)
    return {tensor: torch.cat(each) for tensor, each in parts.items()}


def tokenizer() -> Tokenizer:
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def change_json(path: Path, **changes: Any) -> None:
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | changes)


def write_modules(folder: Path, *modules: tuple[str, str]) -> None:
    """Writes `modules.json`, given the folder and the class of each module."""
    listed = [
        {"idx": number, "name": str(number), "path": place, "type": kind}
        for number, (place, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listed)


def write_dense(
    folder: Path, weight: torch.Tensor, bias: torch.Tensor | None = None, **options: Any
) -> None:
    """Writes a Dense module of sentence-transformers."""
    outputs, inputs = weight.shape
    sizes = {"in_features": inputs, "out_features": outputs, "bias": bias is not None}
    write_json(folder / "config.json", sizes | options)
    biases = {} if bias is None else {"linear.bias": bias}
    save_file({"linear.weight": weight, **biases}, folder / "model.safetensors")


def save_shards(
    folder: Path,
    state: dict[str, torch.Tensor],
    whole: str = "model.safetensors",
    save: Callable[[Any, Path], None] = save_file,
) -> None:
    names, suffix = sorted(state), Path(whole).suffix
    shards = {f"one{suffix}": names[::2], f"two{suffix}": names[1::2]}
    for shard, inside in shards.items():
        save({name: state[name] for name in inside}, folder / shard)
    weight_map = {name: shard for shard, inside in shards.items() for name in inside}
    write_json(folder / f"{whole}.index.json", {"weight_map": weight_map})


def save_pickled_shards(folder: Path, state: dict[str, torch.Tensor]) -> None:
    save_shards(folder, state, "pytorch_model.bin", torch.save)


def write_encoder(folder: Path, **changes: Any) -> Path:
    """Writes a Hugging Face folder without the files of sentence-transformers."""
    folder.mkdir(exist_ok=True)
    options = OPTIONS | changes
    write_json(folder / "config.json", options)
    tokenizer().save(str(folder / "tokenizer.json"))
    save_file(tensors(options), folder / "model.safetensors")
    return folder


def write_model(folder: Path, modules: list[str] = MODULES, **changes: Any) -> Path:
    """Writes a sentence-transformers folder; its Dense has 6 outputs and tanh."""
    write_encoder(folder, **changes)
    places = ["" if not number else f"{number}_{kind}" for number, kind in enumerate(modules)]
    kinds = [f"sentence_transformers.models.{kind}" for kind in modules]
    write_modules(folder, *zip(places, kinds, strict=True))
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 12})
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    for kind, place in zip(modules, places, strict=True):
        if kind == "Dense":
            weight = torch.randn(6, 16, generator=torch.Generator().manual_seed(4))
            write_dense(folder / place, weight, weight[:, 0].clone(), activation_function=TANH)
    return folder
