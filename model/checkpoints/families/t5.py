"""Reads the folder of a T5, mT5 or MADLAD-400 model. Does not import torch.

Source: transformers, models/t5 and models/mt5 (configuration, modeling and tokenization); Kudugunta
et al. 2023, "MADLAD-400".
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoints.families.hf_config import (
    CONFIG,
    IDS,
    MAX_LENGTH_FACTOR,
    MULTILINGUAL_TARGET,
    T5_TYPES,
    id_reasons,
    read_model_options,
)
from model.checkpoints.families.multilingual_folder import TOKENIZER
from model.checkpoints.formats.files import size_reasons, unsupported
from model.checkpoints.languages import (
    LanguageTokens,
    choose_target,
    distinct_tags,
    is_code,
    pair_in,
    pair_of,
)
from model.config import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderKind,
    ModelConfig,
    NormPosition,
    NormSpec,
)
from model.errors import CheckpointFormatError, UnsupportedModelError
from model.tokenization.tokenizer import MappedTokenizer, Tokenizer

PIECES = "spiece.model"

FEED_FORWARDS = {
    "relu": Activation.RELU,
    "gated-gelu": Activation.GELU_TANH,
    "gated-silu": Activation.SWISH,
}
SIZES = ("d_model", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "d_kv")
DEFAULTS = {
    "feed_forward_proj": "relu",
    "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "quantization_config": (None,),
    "feed_forward_proj": tuple(FEED_FORWARDS),
}

TASK = re.compile(r"translation_([a-z]{2,3})_to_([a-z]{2,3})")
TAG = re.compile(r"<2(\w+)>")
SPECIAL = re.compile(r"</?s>|<pad>|<extra_id_\d+>|<unused \d+>|<2\w+>")

MAX_UNUSED = 512
"""Largest number of ids without a piece. T5 has 128, and mT5 has 112."""


def is_t5_folder(folder: Path) -> bool:
    return read_model_options(folder).get("model_type") in T5_TYPES


def pieces_of(folder: Path) -> Path:
    """Returns the SentencePiece file, or else `tokenizer.json`. It need not exist."""
    both = folder / PIECES, folder / TOKENIZER
    return next((path for path in both if path.is_file()), both[0])


def _options(folder: Path) -> dict[str, Any]:
    options = {**DEFAULTS, **read_model_options(folder)}
    options.setdefault("num_decoder_layers", options.get("num_layers"))
    options.setdefault("decoder_start_token_id", options.get("pad_token_id"))
    return options


def read_config(folder: Path, num_bytes: int, unk_id: int) -> ModelConfig:
    """Returns the config of the model in a folder, as `hf_config.read_config` does.

    The weights say whether the output layer has a matrix of its own.
    """
    options = _options(folder)
    sizes = {name: options.get(name) for name in SIZES}
    vocab: Any = options.get("vocab_size")
    reasons = unsupported(options, SUPPORTED)
    reasons = reasons or size_reasons(sizes, {"vocab_size": vocab}, num_bytes)
    if reasons := reasons or id_reasons(options, vocab):
        raise UnsupportedModelError(str(folder / CONFIG), reasons)
    proj, norm = options["feed_forward_proj"], NormSpec(options["layer_norm_epsilon"], False, True)
    try:
        attention = AttentionSpec(
            options["num_heads"],
            options["num_heads"],
            options["d_kv"],
            has_bias=False,
            scale=1.0,
            buckets=options["relative_attention_num_buckets"],
            max_distance=options["relative_attention_max_distance"],
        )
        block = BlockSpec(
            options["d_model"],
            options["d_ff"],
            attention,
            activation=FEED_FORWARDS[proj],
            has_gate=proj.startswith("gated"),
            ffn_biases=(False, False),
            norm=norm,
            norm_position=NormPosition.PRE,
        )
    except UnsupportedModelError as error:
        raise UnsupportedModelError(str(folder / CONFIG), error.reasons) from error
    return ModelConfig(
        options["d_model"],
        options["num_heads"],
        options["d_ff"],
        options["num_layers"],
        options["num_decoder_layers"],
        vocab,
        vocab,
        **{ours: options[theirs] for theirs, ours in IDS.items()},
        unk_id=unk_id,
        decoder=DecoderKind.SELF_ATTENTION,
        norm=NormPosition.PRE,
        has_sinusoids=False,
        scales_embeddings=False,
        scales_output=_scales_output(options),
        has_output_bias=False,
        max_length_factor=MAX_LENGTH_FACTOR,
        min_target_tokens=MULTILINGUAL_TARGET,
        block=block,
    )


def _scales_output(options: Mapping[str, Any]) -> bool:
    """Returns whether hidden states are scaled before the output layer: in T5's first version.

    Version 5 of transformers always saves `tie_word_embeddings` as true, and T5's other option.
    """
    if options["model_type"] != "t5":
        return False
    is_tied = options.get("tie_word_embeddings", True) is not False
    return bool(options.get("scale_decoder_outputs", is_tied))


def translates(folder: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair in the folder's name, if there is one, and what names the target language.

    In MADLAD-400, it is a token such as `<2pt>`. In T5, it is a text such as "translate English to
    German: ", which the config gives for some pairs. A fine-tuned model may have neither.
    """
    pair = pair_in(folder.name)
    found = [TAG.fullmatch(piece) for piece in read_ids(folder)]
    codes = {each[1]: each[0] for each in found if each and is_code(each[1])}
    targets = {tag: codes[code] for code, tag in distinct_tags(codes).items()}
    if targets:
        tags = {token: tag for tag, token in targets.items()}
        token = None if pair is None else choose_target(pair[1], tags)
        if pair is None or token is None:  # madlad400-7b-mt-bt is no pair
            return None, LanguageTokens(dict.fromkeys(targets, ""), targets)
        return pair, LanguageTokens({pair[0]: ""}, {pair[1]: token})
    prompts = _prompts(_options(folder).get("task_specific_params"))
    if pair is not None:
        named = {pair[1]: prompts[pair]} if pair in prompts else {}
        return pair, LanguageTokens({pair[0]: ""}, named) if named else None
    sources = list(dict.fromkeys(source for source, _ in prompts))
    if len(sources) == 1:
        named = {target: prompt for (_, target), prompt in prompts.items()}
        return None, LanguageTokens({sources[0]: ""}, named)
    reason = (
        f"it has no tokens such as <2pt>, and task_specific_params of {CONFIG} do not name one "
        "source language; name the folder after the pair of languages: en-de"
    )
    raise UnsupportedModelError(str(folder), [reason])


def _prompts(tasks: object) -> dict[tuple[str, str], str]:
    """Returns the prompt of each pair, such as "translate English to German: "."""
    prompts = {}
    for name, options in tasks.items() if isinstance(tasks, dict) else ():
        found = TASK.fullmatch(name)
        pair = pair_of(*found.groups()) if found else None
        prompt = options.get("prefix") if isinstance(options, dict) else None
        if pair is not None and isinstance(prompt, str):
            prompts[pair] = prompt
    return prompts


def read_ids(folder: Path) -> dict[str, int]:
    """Returns the id of each piece; ids of the config without a piece get names of their own."""
    pieces = Tokenizer(pieces_of(folder))
    size = pieces.vocab_size
    end = _options(folder).get("vocab_size")
    names = pieces.pieces([*range(size)])
    if type(end) is int and size < end <= size + MAX_UNUSED:
        names += [f"<unused {number}>" for number in range(size, end)]
    ids = {name: number for number, name in enumerate(names)}
    if len(ids) < len(names):
        raise CheckpointFormatError(f"{pieces_of(folder)} has a piece twice")
    return ids


def read_tokenizer(folder: Path) -> MappedTokenizer:
    ids, pieces = read_ids(folder), Tokenizer(pieces_of(folder))
    special = {number for name, number in ids.items() if SPECIAL.fullmatch(name)}
    return MappedTokenizer(pieces_of(folder), ids, special, pieces.eos_id, pieces.unk_id)
