"""Our Transformer against transformers' M2M100, with the same weights.

NLLB-200 and SMaLL-100 are that too. This proves pre-norm with self-attention, positions that begin
at 2, an output layer without a bias, and a first token that each sequence has forced to be its own.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import M2M100Config, M2M100ForConditionalGeneration

from model.architectures.seq2seq import EncoderDecoder
from model.backends.torch_encoder import encode_padded
from model.checkpoints.build import new_engine
from model.checkpoints.families.hf_config import read_config
from model.checkpoints.families.hf_weights import load_weights
from model.encoding.forced_pass import forced_pass
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.hf_files import randomize
from tests.tiny import pad, translate

PAD, EOS, UNK = 1, 2, 3
LANGUAGES = [60, 61, 62]

# One step beyond assert_close's default of 1e-5: logits are sums over 5 layers of products that
# the two implementations order differently, and are of size 10.
TOLERANCE: dict[str, Any] = {"atol": 2e-5, "rtol": 1e-5}

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

# What the config of each has that the others' have not, whether its targets begin with the token
# of their language, and a seed under which targets differ. SMaLL-100's language token stands before
# the source, and its decoder is shallow.
FAMILIES: dict[str, tuple[dict[str, Any], bool, int]] = {
    "m2m100": ({"scale_embedding": True}, True, 6),
    "m2m100, unscaled": ({"scale_embedding": False}, True, 6),
    "nllb-200": ({"encoder_layers": 3, "d_model": 32, "encoder_layerdrop": 0.0}, True, 6),
    "small100": ({"encoder_layers": 4, "decoder_layers": 1}, False, 5),
}

Models = tuple[Any, EncoderDecoder]


@pytest.fixture(scope="module", params=FAMILIES)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder: Path = tmp_path_factory.mktemp("m2m100")
    changes, forces_first, seed = FAMILIES[request.param]
    config = M2M100Config(**{**SETTINGS, **changes})
    theirs: Any = M2M100ForConditionalGeneration(config)
    randomize(theirs, seed)
    theirs.save_pretrained(folder)
    weights = folder / "model.safetensors"
    read = read_config(folder, weights.stat().st_size, UNK)
    ours = replace(read, forces_first=forces_first, max_length_factor=2.0)
    return theirs, load_weights(weights, ours)


def sequences(
    model: EncoderDecoder, given: list[list[int]], options: DecodingOptions
) -> list[Sequence]:
    """Each to another language than the one before it."""
    firsts = [LANGUAGES[i % 3] if model.config.forces_first else None for i in range(len(given))]
    return [Sequence(i, given[i], options, firsts[i]) for i in range(len(given))]


def sources(count: int, seed: int) -> list[list[int]]:
    """Ids as their tokenizers give them: a language, tokens, the end."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
    return [[61, *torch.randint(4, 60, (n,), generator=generator).tolist(), EOS] for n in lengths]


@torch.no_grad()
def test_encoder_states_and_forced_logits_are_the_same(models: Models) -> None:
    theirs, ours = models
    source, mask = pad(sources(6, seed=1))
    source = source.masked_fill(~mask, PAD)
    target = torch.randint(4, 60, (6, 20), generator=torch.Generator().manual_seed(9))
    expected = theirs(
        input_ids=source,
        attention_mask=mask.long(),
        decoder_input_ids=ours.decoder_inputs(target),
        output_attentions=True,
    )
    memory = encode_padded(ours.encoder, source, mask)
    assert_close(memory[mask], expected.encoder_last_hidden_state[mask], **TOLERANCE)
    logits, weights = forced_pass(ours, source, mask, target, return_weights=True)
    assert_close(logits, expected.logits, **TOLERANCE)
    for layer, other in zip(weights.decoder, expected.decoder_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)
    for layer, other in zip(weights.cross, expected.cross_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)


def generate(theirs: Any, sequence: Sequence) -> Any:
    return theirs.generate(
        torch.tensor([sequence.source]),
        num_beams=sequence.options.beam_size,
        do_sample=False,
        max_new_tokens=2 * len(sequence.source),
        forced_bos_token_id=sequence.first_id,
        suppress_tokens=[UNK, PAD],
        early_stopping=False,
        renormalize_logits=True,
        output_logits=True,
        return_dict_in_generate=True,
    )


@torch.no_grad()
def test_greedy_targets_and_their_logits_are_the_same(models: Models) -> None:
    theirs, ours = models
    given = sequences(ours, sources(12, seed=5), DecodingOptions())
    results = translate(new_engine(ours, EngineLimits(max_rows=5)), given)
    targets = [results[i][0].tokens for i in range(len(given))]
    assert len(set(map(tuple, targets))) >= 10
    for sequence, target in zip(given, targets, strict=True):
        output = generate(theirs, sequence)
        assert sequence.first_id in (None, target[0])
        assert target == output.sequences[0, 1:].tolist()
        logits, _ = forced_pass(ours, *pad([sequence.source]), torch.tensor([target]))
        expected: Tensor = torch.cat(output.logits)
        assert_close(logits[0], expected, **TOLERANCE)


@torch.no_grad()
def test_beams_are_the_same(models: Models) -> None:
    theirs, ours = models
    given = sequences(ours, sources(12, seed=7), DecodingOptions(beam_size=4))
    results = translate(new_engine(ours, EngineLimits()), given)
    for sequence in given:
        expected = generate(theirs, sequence).sequences[0, 1:].tolist()
        while expected[-1] == PAD:
            expected.pop()
        (best,) = results[sequence.id]
        assert best.tokens == expected
        assert (best.log_probs[0] == 0) is ours.config.forces_first
