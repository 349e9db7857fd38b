import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.architectures.embedding import NO_TOKEN, Embedding, sinusoid_table
from model.architectures.seq2seq import EncoderDecoder
from model.config import Activation, NormPosition, Sinusoids
from model.layers.row_kernels import PLAIN
from model.layers.sublayers import SSRU, FeedForward, Residual
from tests.tiny import Family, forced_pass, forced_weights, pad, tiny_config, tiny_sources


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("convention", "steps"), [(Sinusoids.MARIAN, 3), (Sinusoids.HUGGING_FACE, 4)]
)
def test_sinusoids_follow_their_formula(convention: Sinusoids, steps: int) -> None:
    """D 8, so n = 4 frequencies: Marian divides k by n - 1, Hugging Face by n."""
    table = sinusoid_table(200, 8, convention)
    assert table.shape == (200, 8)
    assert table.dtype is torch.float32
    for position in (0, 1, 7, 199):
        for k in range(4):
            angle = position * 10000 ** (-k / steps)
            assert table[position, k].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 4 + k].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_an_embedding_is_scaled_and_takes_its_position() -> None:
    config = tiny_config()
    embedding = Embedding(64, config)
    with torch.no_grad():
        embedding.weight.copy_(normal(64, 16))
    tokens, positions = torch.tensor([[3, 7]]), torch.tensor([[0, 5]])
    out = embedding(tokens, positions, 5)
    table = sinusoid_table(6, 16, config.sinusoids)
    assert_close(out[0, 0], 4.0 * embedding.weight[3] + table[0])
    assert_close(out[0, 1], 4.0 * embedding.weight[7] + table[5])


def test_no_token_leaves_the_position_alone() -> None:
    embedding = Embedding(64, tiny_config())
    with torch.no_grad():
        embedding.weight.copy_(normal(64, 16))
    out = embedding(torch.tensor([[NO_TOKEN, 0]]), torch.tensor([[2, 2]]), 2)
    assert_close(out[0, 0], sinusoid_table(3, 16, Sinusoids.MARIAN)[2])
    assert not torch.equal(out[0, 1], out[0, 0])


def test_positions_reach_as_far_as_a_text_does() -> None:
    """The table grows while it is used; 128 is the first position beyond its first length."""
    config = tiny_config()
    embedding = Embedding(64, config)
    with torch.no_grad():
        embedding.weight.zero_()
    for position in (1, 127, 128, 255, 256, 1000):
        out = embedding(torch.tensor([[0]]), torch.tensor([[position]]), position)
        assert_close(out[0, 0], sinusoid_table(position + 1, 16, config.sinusoids)[-1])


@pytest.mark.parametrize("activation", list(Activation))
def test_feed_forward_applies_its_activation(activation: Activation) -> None:
    layer = FeedForward(tiny_config(activation=activation))
    x = normal(2, 3, 16)
    hidden = layer.fc1(x)
    expected = {
        Activation.RELU: hidden.clamp_min(0),
        Activation.SWISH: hidden / (1 + (-hidden).exp()),
        Activation.GELU: hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5)),
        Activation.GELU_TANH: hidden
        * 0.5
        * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3))),
        Activation.GELU_SIGMOID: hidden / (1 + (-1.702 * hidden).exp()),
    }[activation]
    assert_close(layer(x), layer.fc2(expected))


def test_ssru_follows_its_recurrence() -> None:
    layer = SSRU(4)
    x, start = normal(2, 3, 4), normal(2, 4, seed=1)
    cell = start.clone()
    with torch.no_grad():
        out = layer(x, cell, PLAIN)
        expected = start.clone()
        for position in range(3):
            forget = torch.sigmoid(x[:, position] @ layer.forget.weight.T + layer.forget.bias)
            update = x[:, position] @ layer.update.weight.T
            expected = forget * expected + (1 - forget) * update
            assert_close(out[:, position], expected.clamp_min(0))
    assert_close(cell, expected)


@pytest.mark.parametrize("norm", list(NormPosition))
def test_the_layer_norm_stands_where_the_config_says(norm: NormPosition) -> None:
    residual = Residual(tiny_config(norm=norm))
    x, y = 3 * normal(2, 3, 16), normal(2, 3, 16, seed=1)
    mean, spread = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    normed = (x - mean) / (spread + 1e-6).sqrt()
    if norm is NormPosition.PRE:
        assert_close(residual.before(x), normed)
        assert torch.equal(residual.after(x, y), x + y)
    else:
        assert torch.equal(residual.before(x), x)
        assert_close(residual.after(x, torch.zeros_like(x)), normed)


def test_every_weight_sums_to_one_over_the_source_and_is_nothing_beyond(family: Family) -> None:
    model, sources = family.model(), tiny_sources(6)
    batch, mask = pad(sources)
    target = torch.randint(2, 64, (6, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        _, weights = forced_weights(model, batch, mask, target)
    assert len(weights.encoder) == len(weights.cross) == 2
    for layer in [*weights.encoder, *weights.cross]:
        assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))
        assert torch.all(layer.masked_select(~mask[:, None, None, :]) == 0.0)
        assert torch.all(layer.masked_select(mask[:, None, None, :]) > 0.0)


def test_a_target_attends_to_its_past_alone(family: Family) -> None:
    batch, mask = pad(tiny_sources(3))
    with torch.no_grad():
        _, weights = forced_weights(family.model(), batch, mask, torch.full((3, 7), 9))
    if family.decoder == "ssru":
        assert weights.decoder == []
        return
    past = torch.ones(7, 7).tril().bool()
    for layer in weights.decoder:
        assert layer.shape == (3, 2, 7, 7)
        assert torch.all(layer.masked_select(~past) == 0.0)
        assert_close(layer.sum(-1), torch.ones(3, 2, 7))


def test_logits_are_those_of_explicit_attention(family: Family) -> None:
    model = family.model()
    batch, mask = pad(tiny_sources(5))
    target = torch.randint(2, 64, (5, 11), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        fused = forced_pass(model, batch, mask, target)
        explicit, _ = forced_weights(model, batch, mask, target)
    assert_close(fused, explicit)


def test_linear_relu_of_pytorch_is_a_product_and_relu() -> None:
    """The test fails if a new version of PyTorch loses the operator, which GPUs use."""
    linear = torch.nn.Linear(6, 10)
    x = normal(5, 6)
    with torch.no_grad():
        found = torch._addmm_activation(linear.bias, x, linear.weight.t())
        assert_close(found, linear(x).relu())


@pytest.mark.parametrize(
    ("shared", "tied", "names"),
    [
        (True, True, {"encoder.embedding.weight"}),
        (True, False, {"encoder.embedding.weight", "decoder.untied_weight"}),
        (False, True, {"encoder.embedding.weight", "decoder.embedding.weight"}),
    ],
)
def test_tables_are_shared_and_tied_as_the_config_says(
    shared: bool, tied: bool, names: set[str]
) -> None:
    model = EncoderDecoder(tiny_config(shared_embeddings=shared, tied_output=tied))
    tables = {name for name, value in model.named_parameters() if value.shape == (64, 16)}
    assert tables == names
    assert (model.decoder.output_weight is model.decoder.embedding.weight) is tied
