"""Our Transformer against transformers' MarianMTModel, with the same random weights.

This proves the self-attention decoder, post-norm, swish and the Hugging Face position table
against code that we did not write.
"""

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close
from transformers import MarianConfig, MarianMTModel

from model.checkpoints.build import new_engine
from model.checkpoints.names import fill
from model.config import Activation, DecoderKind, ModelConfig, Sinusoids
from model.inspection import AttentionKind
from model.sequence import DecodingOptions, EngineLimits, Sequence
from model.transformer import EncoderDecoder
from tests.attention_jobs import assert_maps_close, maps, random_pairs
from tests.tiny import greedy_ids, pad, tiny_sources, translate

PAD = 63
LAYERS = {"encoder": 2, "decoder": 3}
# Embeddings shared by all three, and positions that are computed and not learned.
IGNORED = re.compile(r"embed_tokens|embed_positions|lm_head")

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
NAMES = {
    "self_attention": "self_attn",
    "self_residual.norm": "self_attn_layer_norm",
    "recurrence": "self_attn",
    "recurrence_residual.norm": "self_attn_layer_norm",
    "cross_attention": "encoder_attn",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
PARTS = {
    "encoder": ("self_attention", "self_residual.norm"),
    "decoder": ("recurrence", "recurrence_residual.norm", "cross_attention", "cross_residual.norm"),
}
FEED_FORWARD = ("feed_forward.expand", "feed_forward.contract", "feed_forward_residual.norm")

# One step beyond assert_close's default of 1e-5: logits here are sums over 5 layers of products
# that the two implementations order differently, and are of size 10.
TOLERANCE: dict[str, Any] = {"atol": 2e-5, "rtol": 1e-5}


def name_pairs() -> list[tuple[str, str]]:
    pairs = [
        ("encoder.embedding.weight", "model.shared.weight"),
        ("decoder.output_bias", "final_logits_bias"),
    ]
    for side, layers in LAYERS.items():
        for layer in range(layers):
            for part in (*PARTS[side], *FEED_FORWARD):
                ours, theirs = f"{side}.layers.{layer}.{part}", NAMES[part]
                inner = ATTENTION.items() if theirs.endswith("attn") else [("", "")]
                for our_end, their_end in inner:
                    for kind in ("weight", "bias"):
                        names = ([ours, our_end, kind], [theirs, their_end, kind])
                        one, other = (".".join(filter(None, name)) for name in names)
                        pairs.append((one, f"model.{side}.layers.{layer}.{other}"))
    return pairs


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


def our_model(theirs: Any, activation: Activation) -> EncoderDecoder:
    config = ModelConfig(
        d_model=16,
        num_heads=2,
        ffn_dim=32,
        encoder_layers=LAYERS["encoder"],
        decoder_layers=LAYERS["decoder"],
        source_vocab_size=64,
        target_vocab_size=64,
        pad_id=PAD,
        start_id=PAD,
        decoder=DecoderKind.SELF_ATTENTION,
        activation=activation,
        sinusoids=Sinusoids.HUGGING_FACE,
        layer_norm_eps=1e-5,
        max_length_factor=2.0,
    )
    arrays: dict[str, NDArray[np.float32]] = {
        name: value.numpy() for name, value in theirs.state_dict().items()
    }
    model = EncoderDecoder(config)
    fill(model, arrays, name_pairs(), IGNORED)
    return model.eval()


Models = tuple[Any, EncoderDecoder]


@pytest.fixture(scope="module", params=[("swish", 0), ("relu", 1), ("gelu", 2)], ids=str)
def models(request: pytest.FixtureRequest) -> Models:
    activation, seed = request.param
    theirs = hf_model(activation, seed)
    return theirs, our_model(theirs, Activation(activation))


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
    memory, _ = ours.encoder(source, mask)
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
    logits, weights = ours(source, mask, target, return_weights=True)
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
        logits, _ = ours(*pad([source]), torch.tensor([target]))
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
