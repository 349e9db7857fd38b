"""Reads the files of sentence-transformers' modules. Does not import torch.

Source: sentence-transformers, models/Pooling.py, models/Dense.py, models/Normalize.py and
models/Transformer.py up to version 6. No code was copied.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.formats.json_files import (
    positive_integer,
    read_options,
    read_options_if_there,
    unsupported,
)
from model.embedding_config import DenseConfig, NormalizeConfig, Pooling, TextEncoderConfig
from model.errors import CheckpointFormatError, UnsupportedModelError

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_camembert_config.json",
    "sentence_xlm-roberta_config.json",
)
"""Possible names of the file with the encoder's options. The first existing file is read.

Only old versions of sentence-transformers used the last three names.
"""

TANH = {"torch.nn.modules.activation.Tanh": True, "torch.nn.modules.linear.Identity": False}
SWITCH = "pooling_mode_"
# Maps the names in older files to ways of pooling. The vectors are concatenated in this order.
SWITCHES = {
    "cls_token": Pooling.CLS,
    "max_tokens": Pooling.MAX,
    "mean_tokens": Pooling.MEAN,
    "mean_sqrt_len_tokens": Pooling.MEAN_SQRT_LEN,
    "weightedmean_tokens": Pooling.WEIGHTED_MEAN,
    "lasttoken": Pooling.LAST_TOKEN,
}
WAYS = {**SWITCHES, **{way.value: way for way in Pooling}}

# Options that change the computation of a module. Each option has its implemented values, the
# default first.
TRANSFORMER_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "transformer_task": ("feature-extraction",),
    "module_output_name": ("token_embeddings", None),
    "processing_kwargs": ({}, None),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None,),
}
# With `include_prompt`, the tokens of a prompt are pooled together with the tokens of the text.
POOLING_SUPPORTED = {"include_prompt": (True,)}
HEAD_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "module_input_name": ("sentence_embedding",),
    "module_output_name": ("sentence_embedding", None),
    "use_residual": (False,),
}


def read_pooling(path: Path) -> tuple[Pooling, ...]:
    """Returns the ways of pooling in the order in which their vectors are concatenated.

    Raises:
        CheckpointError: The file is damaged, or a way is not implemented.
    """
    options = read_options(path)
    named = options.get("pooling_mode") or _switched_on(options)
    chosen = named if isinstance(named, list) else [named]
    reasons = [
        f"{name!r} is not a way of pooling, supported: {', '.join(Pooling)}"
        for name in chosen
        if not isinstance(name, str) or name not in WAYS
    ]
    reasons += unsupported(options, POOLING_SUPPORTED)
    if not chosen:
        reasons.append("no way of pooling is switched on")
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return tuple(WAYS[name] for name in chosen)


def _switched_on(options: Mapping[str, Any]) -> list[str]:
    """Returns the names of the ways of pooling that an older file switches on.

    Known ways come first, in the order of SWITCHES. Unknown ways follow in alphabetical order.
    """
    on = {
        name.removeprefix(SWITCH)
        for name, is_on in options.items()
        if name.startswith(SWITCH) and is_on is True
    }
    return [*(name for name in SWITCHES if name in on), *sorted(on - SWITCHES.keys())]


def read_dense(folder: Path) -> DenseConfig:
    """Returns the config of a Dense module.

    Raises:
        CheckpointError: The file is damaged, or an option is not implemented.
    """
    path = folder / CONFIG
    options = read_options(path)
    reasons = unsupported(options, HEAD_SUPPORTED)
    activation = str(options.get("activation_function", next(iter(TANH))))
    if activation not in TANH:
        reasons.append(f"activation_function is {activation}, supported: {', '.join(TANH)}")
    inputs = positive_integer(options, "in_features", 0, reasons)
    outputs = positive_integer(options, "out_features", 0, reasons)
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return DenseConfig(inputs, outputs, bool(options.get("bias", True)), TANH[activation])


def read_normalize(folder: Path) -> NormalizeConfig:
    """Returns the config of a Normalize module. Modules of older versions have no config file.

    Raises:
        CheckpointError: The file is damaged, or an option is not implemented.
    """
    path = folder / CONFIG
    reasons = unsupported(read_options_if_there(path), HEAD_SUPPORTED)
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return NormalizeConfig()


def read_prompts(path: Path) -> tuple[dict[str, str], str | None]:
    """Returns a map of names to prompts, and the name of the default prompt.

    A prompt is a prefix that can be put before a text.

    Raises:
        CheckpointFormatError: The file is damaged.
    """
    options = read_options_if_there(path)
    prompts = options.get("prompts") or {}
    default = options.get("default_prompt_name")
    is_plain = isinstance(prompts, dict) and all(isinstance(p, str) for p in prompts.values())
    if not is_plain or not (default is None or isinstance(default, str)):
        raise CheckpointFormatError(
            f"{path}: prompts must map names to texts, and default_prompt_name must be a text"
        )
    return prompts, default


def read_max_tokens(folder: Path, config: TextEncoderConfig) -> int:
    """Returns the largest number of tokens of a text, as sentence-transformers computes it.

    The number is `max_seq_length` of the encoder's options, or else `model_max_length` of the
    tokenizer's config. The result is never larger than `max_tokens` of the encoder.

    Raises:
        CheckpointError: A file is damaged, or an option is not implemented.
    """
    value, option = read_transformer_options(folder).get("max_seq_length"), "max_seq_length"
    if value is None:
        option = "model_max_length"
        value = read_options_if_there(folder / TOKENIZER_CONFIG).get(option, config.max_tokens)
    # In tokenizers without a limit, the value is 1e30, as a float or an integer.
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        raise CheckpointFormatError(f"{folder}: {option} is {value!r}, it must be at least 1")
    return int(min(value, config.max_tokens))


def read_transformer_options(folder: Path) -> dict[str, Any]:
    """Returns the encoder module's options from the first existing file of TRANSFORMER_CONFIGS.

    Raises:
        CheckpointError: The file is damaged, or an option is not implemented.
    """
    paths = [folder / name for name in TRANSFORMER_CONFIGS]
    path = next((path for path in paths if path.is_file()), paths[0])
    options = read_options_if_there(path)
    reasons = unsupported(options, TRANSFORMER_SUPPORTED)
    if reasons:
        raise UnsupportedModelError(str(path), reasons)
    return options
