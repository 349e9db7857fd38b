import torch
from torch import Tensor
from torch.testing import assert_close

from model.architectures.embedding import Embedding, sinusoid_table
from tests.tiny import tiny_config


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


def test_linear_relu_of_pytorch_is_a_product_and_relu() -> None:
    """The test fails if a new version of PyTorch loses the operator, which GPUs use."""
    linear = torch.nn.Linear(6, 10)
    x = normal(5, 6)
    with torch.no_grad():
        found = torch._addmm_activation(linear.bias, x, linear.weight.t())
        assert_close(found, linear(x).relu())
