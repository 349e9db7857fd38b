"""Our Transformer against transformers' MarianMTModel, with the same random weights.

This proves the self-attention decoder, post-norm, swish and the Hugging Face position table
against code that we did not write.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import MarianConfig, MarianMTModel

from model.architectures.seq2seq import EncoderDecoder
from model.backends.torch_encoder import encode_padded
from model.checkpoints.build import new_engine
from model.checkpoints.families.hf_config import read_config
from model.checkpoints.families.hf_weights import load_weights
from model.encoding.forced_pass import forced_pass
from model.inspection.query import AttentionKind
from model.sequence import DecodingOptions, EngineLimits, Sequence
from tests.attention_jobs import assert_maps_close, maps, random_pairs
from tests.tiny import greedy_ids, pad, tiny_sources, translate

PAD = 63
LAYERS = {"encoder": 2, "decoder": 3}
# One step beyond assert_close's default of 1e-5: logits here are sums over 5 layers of products
# that the two implementations order differently, and are of size 10.
TOLERANCE: dict[str, Any] = {"atol": 2e-5, "rtol": 1e-5}


SETTINGS: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 16,
    "encoder_layers": LAYERS["encoder"],
    "decoder_layers": LAYERS["decoder"],
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "scale_embedding": True,
    "static_position_embeddings": True,
    "max_position_embeddings": 128,
    "pad_token_id": PAD,
    "decoder_start_token_id": PAD,
    "eos_token_id": 0,
    "forced_eos_token_id": None,
    "attn_implementation": "eager",
}


def hf_model(activation: str, seed: int) -> Any:
    model: Any = MarianMTModel(MarianConfig(activation_function=activation, **SETTINGS))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" not in name:
                noise = torch.randn(value.shape, generator=generator)
                value.copy_(1 + 0.2 * noise if "norm.weight" in name else 0.3 * noise)
        model.final_logits_bias.copy_(2 * torch.randn(1, 64, generator=generator))
    return model.eval()


def our_model(theirs: Any, folder: Path) -> EncoderDecoder:
    """Through the files that they write, with a length factor that half of the targets reach."""
    theirs.save_pretrained(folder)
    weights = folder / "model.safetensors"
    config = read_config(folder, weights.stat().st_size, unk_id=1)
    return load_weights(weights, replace(config, max_length_factor=2.0))


Models = tuple[Any, EncoderDecoder]


@pytest.fixture(scope="module", params=[("swish", 0), ("relu", 1), ("gelu", 2)], ids=str)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Models:
    activation, seed = request.param
    theirs = hf_model(activation, seed)
    return theirs, our_model(theirs, tmp_path_factory.mktemp("marian"))


@pytest.fixture(scope="module")
def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Padded sources, their mask, and targets."""
    source, mask = pad(tiny_sources(6))
    target = torch.randint(2, PAD, (6, 20), generator=torch.Generator().manual_seed(9))
    return source.masked_fill(~mask, PAD), mask, target


@torch.no_grad()
def test_encoder_states_are_the_same(models: Models, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    theirs, ours = models
    source, mask, _ = batch
    expected = theirs.model.encoder(source, attention_mask=mask.long()).last_hidden_state
    memory = encode_padded(ours.encoder, source, mask)
    assert_close(memory[mask], expected[mask])


@torch.no_grad()
def test_teacher_forced_logits_and_all_attention_weights_are_the_same(
    models: Models, batch: tuple[Tensor, Tensor, Tensor]
) -> None:
    theirs, ours = models
    source, mask, target = batch
    expected = theirs(
        input_ids=source,
        attention_mask=mask.long(),
        decoder_input_ids=ours.decoder_inputs(target),
        output_attentions=True,
    )
    logits, weights = forced_pass(ours, source, mask, target, return_weights=True)
    assert_close(logits, expected.logits, **TOLERANCE)
    assert len(weights.encoder) == 2
    assert len(weights.decoder) == len(weights.cross) == 3
    rows = mask[:, None, :, None]  # queries that are padding say nothing
    for layer, other in zip(weights.encoder, expected.encoder_attentions, strict=True):
        assert_close(layer * rows, other * rows, atol=1e-5, rtol=0)
    for layer, other in zip(weights.decoder, expected.decoder_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)
    for layer, other in zip(weights.cross, expected.cross_attentions, strict=True):
        assert_close(layer, other, atol=1e-5, rtol=0)


@torch.no_grad()
def test_all_attention_of_a_pass_is_the_same(models: Models) -> None:
    theirs, ours = models
    pairs = random_pairs(6, longest=20)
    source, mask = pad([source for source, _ in pairs])
    target, _ = pad([target for _, target in pairs])
    expected = theirs(
        input_ids=source.masked_fill(~mask, PAD),
        attention_mask=mask.long(),
        decoder_input_ids=ours.decoder_inputs(target),
        output_attentions=True,
    )
    layers = {
        AttentionKind.ENCODER: expected.encoder_attentions,
        AttentionKind.DECODER: expected.decoder_attentions,
        AttentionKind.CROSS: expected.cross_attentions,
    }
    for row, found in enumerate(maps(ours, pairs)):
        stacked = {kind: torch.stack(layers[kind])[:, row].numpy() for kind in layers}
        theirs_whole = {
            kind: values[:, :, : found[kind].shape[2], : found[kind].shape[3]]
            for kind, values in stacked.items()
        }
        assert_maps_close(found, theirs_whole, 1e-5)


def generate(theirs: Any, source: list[int], limit: int) -> tuple[list[int], Tensor]:
    """Their greedy target, and their logits (T, V) at each of its steps."""
    output = theirs.generate(
        torch.tensor([source]),
        num_beams=1,
        do_sample=False,
        max_new_tokens=limit,
        suppress_tokens=[1, PAD],
        output_logits=True,
        return_dict_in_generate=True,
    )
    return output.sequences[0, 1:].tolist(), torch.cat(output.logits)


@torch.no_grad()
def test_greedy_targets_and_their_logits_are_the_same(models: Models) -> None:
    theirs, ours = models
    sources = tiny_sources(12, seed=5, longest=20)
    targets = greedy_ids(new_engine(ours, EngineLimits(max_rows=5)), sources)
    assert len(set(map(tuple, targets))) >= 10
    for source, target in zip(sources, targets, strict=True):
        expected, expected_logits = generate(theirs, source, 2 * len(source))
        assert target == expected
        logits, _ = forced_pass(ours, *pad([source]), torch.tensor([target]))
        assert_close(logits[0], expected_logits, **TOLERANCE)


@torch.no_grad()
def test_scores_are_those_of_their_logits(models: Models) -> None:
    theirs, ours = models
    sources = tiny_sources(4, seed=6, longest=12)
    options = DecodingOptions(return_scores=True)
    results = translate(
        new_engine(ours, EngineLimits()),
        [Sequence(i, source, options) for i, source in enumerate(sources)],
    )
    for i, source in enumerate(sources):
        tokens, logits = generate(theirs, source, 2 * len(source))
        logits[:, [1, PAD]] = -torch.inf
        log_probs = logits.log_softmax(-1)[range(len(tokens)), tokens]
        assert results[i][0].log_probs == pytest.approx(log_probs.tolist(), abs=1e-4)


@torch.no_grad()
def test_beams_are_the_same(models: Models) -> None:
    """Their rule for the end of a search, as early_stopping=False has it, is ours."""
    theirs, ours = models
    sources = tiny_sources(12, seed=7, longest=20)
    options = DecodingOptions(beam_size=4, num_hypotheses=4)
    results = translate(
        new_engine(ours, EngineLimits()),
        [Sequence(i, source, options) for i, source in enumerate(sources)],
    )
    for i, source in enumerate(sources):
        output = theirs.generate(
            torch.tensor([source]),
            num_beams=4,
            do_sample=False,
            max_new_tokens=2 * len(source),
            suppress_tokens=[1, PAD],
            length_penalty=1.0,
            early_stopping=False,
            renormalize_logits=True,
        )
        expected = output[0, 1:].tolist()
        while expected[-1] == PAD:
            expected.pop()
        assert results[i][0].tokens == expected
