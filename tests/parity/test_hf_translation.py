"""Our Transformer against transformers' translation models, with the same random weights.

This proves the self-attention decoder, both places of norms, sinusoids and relative positions
against code that we did not write; and a first token that each sequence has forced to be its own.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.architectures.stack import EncoderDecoder
from model.backends.encoder_batch import encode_padded
from model.checkpoints.build import new_engine, read_hugging_face
from model.checkpoints.weights import load_weights
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.hf_files import new_model, randomize
from tests.tiny import decoder_inputs, forced_pass, forced_weights, pad, translate

LANGUAGES = [60, 61, 62]

# One step beyond assert_close's default of 1e-5: logits are sums over 5 layers of products that
# the two implementations order differently, and are of size 10.
TOLERANCE: dict[str, Any] = {"atol": 2e-5, "rtol": 1e-5}
WEIGHTS: dict[str, Any] = {"atol": 1e-5, "rtol": 0}

SETTINGS: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 128,
    "attn_implementation": "eager",
}
MARIAN: dict[str, Any] = {
    "scale_embedding": True,
    "static_position_embeddings": True,
    "pad_token_id": 63,
    "decoder_start_token_id": 63,
    "eos_token_id": 0,
    "forced_eos_token_id": None,
}

T5: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
    "attn_implementation": "eager",
}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def marian(**changes: Any) -> Any:
    return new_model("MarianMTModel", **{**SETTINGS, **MARIAN, **changes})


def m2m100(**changes: Any) -> Any:
    return new_model("M2M100ForConditionalGeneration", **{**SETTINGS, **changes})


def mbart(**changes: Any) -> Any:
    own = {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    return new_model("MBartForConditionalGeneration", **{**SETTINGS, **own, **changes})


def t5(**changes: Any) -> Any:
    return new_model("T5ForConditionalGeneration", **{**T5, **changes})


def mt5(**changes: Any) -> Any:
    return new_model("MT5ForConditionalGeneration", **{**T5, **GATED, **changes})


# What makes each, what its config has that the others' have not, whether its targets begin with the
# token of their language, and a seed under which targets differ. SMaLL-100's language token stands
# before the source, and its decoder is shallow. MADLAD-400 has T5's version 1.1.
FAMILIES: dict[str, tuple[Callable[..., Any], dict[str, Any], bool, int]] = {
    "marian": (marian, {"activation_function": "swish"}, False, 0),
    "marian, relu": (marian, {"activation_function": "relu"}, False, 1),
    "marian, gelu": (marian, {"activation_function": "gelu"}, False, 2),
    "m2m100": (m2m100, {"scale_embedding": True}, True, 6),
    "m2m100, unscaled": (m2m100, {"scale_embedding": False}, True, 6),
    "nllb-200": (m2m100, {"encoder_layers": 3, "d_model": 32, "encoder_layerdrop": 0.0}, True, 6),
    "mbart-50": (mbart, {"scale_embedding": True}, True, 7),
    "small100": (m2m100, {"encoder_layers": 4, "decoder_layers": 1}, False, 5),
    "t5": (t5, {}, False, 1),
    "t5 1.1": (t5, GATED, False, 2),
    "mt5": (mt5, {"num_decoder_layers": None}, False, 3),
}

UNKNOWN = {marian: 1, m2m100: 3, mbart: 3}

Models = tuple[Any, EncoderDecoder]


@pytest.fixture(scope="module", params=FAMILIES)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Through the files that they write, with a length factor that half of the targets reach."""
    folder = tmp_path_factory.mktemp("translation")
    make, changes, forces_first, seed = FAMILIES[request.param]
    theirs: Any = make(**changes)
    if changes is GATED:
        theirs.lm_head.weight = torch.nn.Parameter(torch.empty(64, 16))
    randomize(theirs, seed)
    if make in (marian, mbart):
        generator = torch.Generator().manual_seed(seed)
        theirs.final_logits_bias.copy_(2 * torch.randn(1, 64, generator=generator))
    theirs.save_pretrained(folder)
    weights = folder / "model.safetensors"
    read = read_hugging_face(weights, weights.stat().st_size, UNKNOWN.get(make, 2))
    changes = {"forces_first": forces_first, "max_length_factor": 2.0, "min_target_tokens": 1}
    return theirs, load_weights(replace(read, config=replace(read.config, **changes)))


def sequences(
    model: EncoderDecoder, count: int, seed: int, options: DecodingOptions | None = None
) -> list[Sequence]:
    """Each to another language than the one before it."""
    config = model.config
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 14, (count,), generator=generator).tolist()
    tokens = [torch.randint(4, 60, (n,), generator=generator).tolist() for n in lengths]
    firsts = [LANGUAGES[i % 3] if config.forces_first else None for i in range(count)]
    return [
        Sequence(i, [61, *tokens[i], config.eos_id], options or DecodingOptions(), firsts[i])
        for i in range(count)
    ]


@torch.no_grad()
def test_encoder_states_forced_logits_and_attention_are_the_same(models: Models) -> None:
    theirs, ours = models
    source, mask = pad([each.source for each in sequences(ours, 6, seed=1)])
    source = source.masked_fill(~mask, ours.config.pad_id or 0)
    target = torch.randint(4, 60, (6, 20), generator=torch.Generator().manual_seed(9))
    expected = theirs(
        input_ids=source,
        attention_mask=mask.long(),
        decoder_input_ids=decoder_inputs(ours, target),
        output_attentions=True,
    )
    memory = encode_padded(ours.encoder, source, mask)
    assert_close(memory[mask], expected.encoder_last_hidden_state[mask], **TOLERANCE)
    logits, weights = forced_weights(ours, source, mask, target)
    assert_close(logits, expected.logits, **TOLERANCE)
    rows = mask[:, None, :, None]  # queries that are padding say nothing
    for layer, other in zip(weights.encoder, expected.encoder_attentions, strict=True):
        assert_close(layer * rows, other * rows, **WEIGHTS)
    for layer, other in zip(weights.decoder, expected.decoder_attentions, strict=True):
        assert_close(layer, other, **WEIGHTS)
    for layer, other in zip(weights.cross, expected.cross_attentions, strict=True):
        assert_close(layer, other, **WEIGHTS)


def generate(theirs: Any, ours: EncoderDecoder, sequence: Sequence) -> tuple[list[int], Tensor]:
    """Their best target, without padding, and the logits (T, V) at each of its steps."""
    output = theirs.generate(
        torch.tensor([sequence.source]),
        num_beams=sequence.options.beam_size,
        do_sample=False,
        max_new_tokens=2 * len(sequence.source),
        forced_bos_token_id=sequence.first_id,
        suppress_tokens=ours.config.forbidden_ids,
        length_penalty=1.0,
        early_stopping=False,
        renormalize_logits=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = output.sequences[0, 1:].tolist()
    while tokens[-1] == ours.config.pad_id:
        tokens.pop()
    return tokens, torch.cat(output.logits)


@torch.no_grad()
def test_greedy_targets_their_logits_and_scores_are_the_same(models: Models) -> None:
    theirs, ours = models
    given = sequences(ours, 4, seed=5)
    results = translate(new_engine(ours, EngineLimits(max_rows=3)), given)
    scored = sequences(ours, 4, seed=5, options=DecodingOptions(return_scores=True))
    scores = translate(new_engine(ours, EngineLimits()), scored)
    targets = [results[i][0].tokens for i in range(len(given))]
    assert len(set(map(tuple, targets))) >= 3
    for sequence, target in zip(given, targets, strict=True):
        expected, expected_logits = generate(theirs, ours, sequence)
        assert target == expected
        assert sequence.first_id in (None, target[0])
        logits = forced_pass(ours, *pad([sequence.source]), torch.tensor([target]))
        assert_close(logits[0], expected_logits, **TOLERANCE)
        expected_logits[:, ours.config.forbidden_ids] = -torch.inf
        log_probs = expected_logits.log_softmax(-1)[range(len(target)), target]
        if ours.config.forces_first:
            log_probs[0] = 0
        assert scores[sequence.id][0].log_probs == pytest.approx(log_probs.tolist(), abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("models", ["marian", "nllb-200", "t5 1.1"], indirect=True)
def test_beams_are_the_same(models: Models) -> None:
    """Their rule for the end of a search, as early_stopping=False has it, is ours."""
    theirs, ours = models
    given = sequences(ours, 4, seed=7, options=DecodingOptions(beam_size=4, num_hypotheses=4))
    results = translate(new_engine(ours, EngineLimits()), given)
    for sequence in given:
        best = results[sequence.id][0]
        assert best.tokens == generate(theirs, ours, sequence)[0]
        assert (best.log_probs[0] == 0) is ours.config.forces_first
