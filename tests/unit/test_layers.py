import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.architectures.embedding import Embedding, sinusoid_table
from model.config import Activation
from model.layers.block import FeedForward
from tests.tiny import Family, forced_pass, forced_weights, pad, tiny_config, tiny_sources


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


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
    layer = FeedForward(tiny_config(activation=activation).encoder_block)
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
        Activation.TANH: 1 - 2 / (1 + (2 * hidden).exp()),
    }[activation]
    assert_close(layer(x), layer.fc2(expected))


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
