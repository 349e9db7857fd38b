"""Implements the residual sum and layer norm around a sublayer."""

from torch import Tensor, nn

from model.config import ModelConfig, NormPosition
from model.embedding_config import LayerConfig
from model.layers.row_kernels import RowKernels


class Residual(nn.Module):
    """The residual sum around a sublayer, with layer norm before the sublayer or after the sum."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.is_pre = config.norm is NormPosition.PRE
        self.norms_keys = config.norms_keys

    @property
    def norm_after(self) -> nn.Module | None:
        """Returns the layer norm after the sum; None in a pre-norm layer."""
        return None if self.is_pre else self.norm

    def before(self, x: Tensor) -> Tensor:
        """Returns the input of the sublayer for the residual stream x."""
        y: Tensor = self.norm(x) if self.is_pre else x
        return y

    def key_value_input(self, x: Tensor, inner: Tensor) -> Tensor:
        """Returns the input of the key and value projections of self-attention.

        In a pre-norm layer, Marian normalises only the input of the query projection. Other
        families also normalise the input of the key and value projections.

        Source: marian-dev, src/models/transformer.h, LayerAttention, `preProcess`.
        """
        return inner if self.norms_keys else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """Returns the new residual stream for the stream x and the sublayer output y."""
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


def join(
    x: Tensor, y: Tensor, ended: Residual, next_norm: nn.Module, kernels: RowKernels
) -> tuple[Tensor, Tensor]:
    """Returns the new residual stream after a sublayer, and the input of the next sublayer.

    `ended` belongs to this sublayer. `next_norm` has no effect in a post-norm stack.
    """
    total, normed = kernels.add_norm(x, y, next_norm if ended.is_pre else ended.norm)
    return (total, normed) if ended.is_pre else (normed, normed)


def final_norm(config: ModelConfig) -> nn.Module:
    """Returns the layer norm on top of a pre-norm stack, or the identity for a post-norm stack."""
    if config.norm is NormPosition.POST:
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
