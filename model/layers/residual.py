"""The residual sum and layer norm around a sublayer."""

from torch import Tensor, nn

from model.config import LayerConfig, ModelConfig, NormPosition


class Residual(nn.Module):
    """The residual sum around a sublayer with its one layer norm, before or after."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.is_pre = config.norm is NormPosition.PRE
        self.norms_keys = config.norms_keys

    def before(self, x: Tensor) -> Tensor:
        """What goes into the sublayer."""
        y: Tensor = self.norm(x) if self.is_pre else x
        return y

    def attended(self, x: Tensor, inner: Tensor) -> Tensor:
        """What self-attention takes its keys and values from, for x and `before` of it.

        Source: marian-dev, src/models/transformer.h, LayerAttention: `preProcess` is applied to
        the query alone.
        """
        return inner if self.norms_keys else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        """What leaves, for the sublayer's input x and its output y."""
        z: Tensor = x + y if self.is_pre else self.norm(x + y)
        return z


def final_norm(config: ModelConfig) -> nn.Module:
    """The layer norm on top of a pre-norm stack; nothing on a post-norm one."""
    if config.norm is NormPosition.POST:
        return nn.Identity()
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
