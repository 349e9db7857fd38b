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
    id_reasons,
    read_model_options,
)
from model.checkpoints.families.multilingual_folder import read_ids
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
from model.errors import UnsupportedModelError

FEED_FORWARDS = {
    "relu": Activation.RELU,
    "gated-gelu": Activation.GELU_TANH,
    "gated-silu": Activation.SWISH,
}
SIZES = {
    "d_model": "d_model",
    "d_ff": "ffn_dim",
    "num_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_heads": "num_heads",
}
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


def _options(folder: Path) -> dict[str, Any]:
    options = {**DEFAULTS, **read_model_options(folder)}
    options.setdefault("num_decoder_layers", options.get("num_layers"))
    options.setdefault("decoder_start_token_id", options.get("pad_token_id"))
    return options


def read_config(folder: Path, num_bytes: int, unk_id: int) -> ModelConfig:
    # The weights say whether the output layer has a matrix of its own.
    options = _options(folder)
    sizes = {name: options.get(name) for name in (*SIZES, "d_kv")}
    vocab: Any = options.get("vocab_size")
    reasons = unsupported(options, SUPPORTED)
    reasons = reasons or size_reasons(sizes, {"vocab_size": vocab}, num_bytes)
    if reasons := reasons or id_reasons(options, vocab):
        raise UnsupportedModelError(str(folder / CONFIG), reasons)
    proj = options["feed_forward_proj"]
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
    except UnsupportedModelError as error:
        raise UnsupportedModelError(str(folder / CONFIG), error.reasons) from error
    return ModelConfig(
        **{ours: options[theirs] for theirs, ours in {**SIZES, **IDS}.items()},
        source_vocab_size=vocab,
        target_vocab_size=vocab,
        unk_id=unk_id,
        decoder=DecoderKind.SELF_ATTENTION,
        has_sinusoids=False,
        scales_embeddings=False,
        scales_output=_scales_output(options),
        has_output_bias=False,
        max_length_factor=MAX_LENGTH_FACTOR,
        min_target_tokens=MULTILINGUAL_TARGET,
        block=BlockSpec(
            options["d_model"],
            options["d_ff"],
            attention,
            activation=FEED_FORWARDS[proj],
            has_gate=proj.startswith("gated"),
            ffn_biases=(False, False),
            norm=NormSpec(options["layer_norm_epsilon"], has_bias=False, is_rms=True),
            norm_position=NormPosition.PRE,
        ),
    )


def _scales_output(options: Mapping[str, Any]) -> bool:
    # Version 5 of transformers always saves `tie_word_embeddings` as true, and T5's other option.
    is_tied = options.get("tie_word_embeddings", True)
    return options["model_type"] == "t5" and bool(options.get("scale_decoder_outputs", is_tied))


def translates(folder: Path) -> tuple[tuple[str, str] | None, LanguageTokens | None]:
    """Returns the pair in the folder's name, if there is one, and what names the target language.

    In MADLAD-400, it is a token such as `<2pt>`. In T5, it is a text such as "translate English to
    German: ", which the config gives for some pairs. A fine-tuned model may have neither.
    """
    pair = pair_in(folder.name)
    found = filter(None, map(TAG.fullmatch, read_ids(folder)))
    codes = {each[1]: each[0] for each in found if is_code(each[1])}
    targets = {tag: codes[code] for code, tag in distinct_tags(codes).items()}
    prompts = _prompts(read_model_options(folder).get("task_specific_params"))
    if pair is not None:
        token = choose_target(pair[1], {token: tag for tag, token in targets.items()})
        chosen = token or prompts.get(pair)
        if chosen or not targets:  # madlad400-7b-mt-bt is no pair
            return pair, LanguageTokens({pair[0]: ""}, {pair[1]: chosen}) if chosen else None
    sources = [*targets] or [*dict.fromkeys(source for source, _ in prompts)]
    if not targets and len(sources) == 1:
        targets = {target: prompt for (_, target), prompt in prompts.items()}
    if targets:
        return None, LanguageTokens(dict.fromkeys(sources, ""), targets)
    reason = (
        f"it has no tokens such as <2pt>, and task_specific_params of {CONFIG} do not name one "
        "source language; name the folder after the pair of languages: en-de"
    )
    raise UnsupportedModelError(str(folder), [reason])


def _prompts(tasks: object) -> dict[tuple[str, str], str]:
    named = tasks.items() if isinstance(tasks, dict) else ()
    found = [(TASK.fullmatch(name), task) for name, task in named if isinstance(task, dict)]
    prompts = {pair_of(*pair.groups()): task.get("prefix") for pair, task in found if pair}
    return {pair: prompt for pair, prompt in prompts.items() if pair and isinstance(prompt, str)}
