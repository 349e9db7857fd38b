"""Our Transformer against transformers' M2M100, which NLLB-200 is too, with the same weights.

This proves pre-norm with self-attention, positions that begin at 2, an output layer without a bias,
and a first token that is forced.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import M2M100Config, M2M100ForConditionalGeneration

from model.checkpoints.build import new_engine
from model.checkpoints.hf_config import read_config
from model.checkpoints.hf_weights import load_weights
from model.sequence import DecodingOptions, EngineLimits, Sequence
from model.transformer import EncoderDecoder
from tests.hf_files import randomize
from tests.tiny import greedy_ids, pad, translate

PAD, EOS, UNK, LANGUAGE = 1, 2, 3, 60

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

Models = tuple[Any, EncoderDecoder]


@pytest.fixture(scope="module", params=[True, False], ids=["scaled", "unscaled"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder: Path = tmp_path_factory.mktemp("m2m100")
    config = M2M100Config(scale_embedding=request.param, **SETTINGS)
    theirs: Any = M2M100ForConditionalGeneration(config)
    randomize(theirs, seed=6)
    theirs.save_pretrained(folder)
    weights = folder / "model.safetensors"
    ours = replace(
        read_config(folder, weights.stat().st_size, UNK), first_id=LANGUAGE, max_length_factor=2.0
    )
    return theirs, load_weights(weights, ours)


def sources(count: int, seed: int) -> list[list[int]]:
    """Ids as their tokenizers give them: the source's language, its tokens, the end."""
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
    memory, _ = ours.encoder(source, mask)
    assert_close(memory[mask], expected.encoder_last_hidden_state[mask], **TOLERANCE)
    logits, weights = ours(source, mask, target, return_weights=True)
    assert_close(logits, expected.logits, **TOLERANCE)
    for layer, other in zip(weights.decoder, expected.decoder_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)
    for layer, other in zip(weights.cross, expected.cross_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)


def generate(theirs: Any, source: list[int], beams: int) -> Any:
    return theirs.generate(
        torch.tensor([source]),
        num_beams=beams,
        do_sample=False,
        max_new_tokens=2 * len(source),
        forced_bos_token_id=LANGUAGE,
        suppress_tokens=[UNK, PAD],
        early_stopping=False,
        renormalize_logits=True,
        output_logits=True,
        return_dict_in_generate=True,
    )


@torch.no_grad()
def test_greedy_targets_and_their_logits_are_the_same(models: Models) -> None:
    theirs, ours = models
    given = sources(12, seed=5)
    targets = greedy_ids(new_engine(ours, EngineLimits(max_rows=5)), given)
    assert len(set(map(tuple, targets))) >= 10
    for source, target in zip(given, targets, strict=True):
        output = generate(theirs, source, beams=1)
        assert target[0] == LANGUAGE
        assert target == output.sequences[0, 1:].tolist()
        logits, _ = ours(*pad([source]), torch.tensor([target]))
        expected: Tensor = torch.cat(output.logits)
        assert_close(logits[0], expected, **TOLERANCE)


@torch.no_grad()
def test_beams_are_the_same(models: Models) -> None:
    theirs, ours = models
    given = sources(12, seed=7)
    options = DecodingOptions(beam_size=4)
    results = translate(
        new_engine(ours, EngineLimits()),
        [Sequence(i, source, options) for i, source in enumerate(given)],
    )
    for i, source in enumerate(given):
        expected = generate(theirs, source, beams=4).sequences[0, 1:].tolist()
        while expected[-1] == PAD:
            expected.pop()
        assert results[i][0].tokens == expected
        assert results[i][0].log_probs[0] == 0
