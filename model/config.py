"""ModelConfig: what a checkpoint says of itself, in one vocabulary for all families."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from model.errors import UnsupportedModelError


class DecoderKind(StrEnum):
    """What stands first in a decoder layer."""

    SSRU = "ssru"
    SELF_ATTENTION = "self-attention"


class NormPosition(StrEnum):
    """Layer norm after the residual sum (Vaswani et al. 2017) or before the sublayer."""

    POST = "post"
    PRE = "pre"


class Activation(StrEnum):
    """The nonlinearity between the two feed-forward layers."""

    RELU = "relu"
    SWISH = "swish"
    GELU = "gelu"
    GELU_TANH = "gelu-tanh"


class Sinusoids(StrEnum):
    """Which exponent the position table uses for frequency k of n = d_model / 2.

    Both put all sines in the first half of the vector and all cosines in the second.
    Marian divides by n - 1; the Hugging Face port of Marian divides by n.
    """

    MARIAN = "marian"
    HUGGING_FACE = "hugging-face"


class LayerConfig(Protocol):
    """What a Transformer layer asks of a config; `ModelConfig` tells what each of them means."""

    @property
    def d_model(self) -> int: ...  # noqa: D102 - as in ModelConfig
    @property
    def num_heads(self) -> int: ...  # noqa: D102
    @property
    def ffn_dim(self) -> int: ...  # noqa: D102
    @property
    def norm(self) -> NormPosition: ...  # noqa: D102
    @property
    def norms_keys(self) -> bool: ...  # noqa: D102
    @property
    def activation(self) -> Activation: ...  # noqa: D102
    @property
    def layer_norm_eps(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes and switches of one encoder-decoder Transformer.

    Attributes:
        d_model: Width of the residual stream (D).
        num_heads: Attention heads (H); divides d_model.
        ffn_dim: Width between the two feed-forward layers (F).
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
        source_vocab_size: Ids the encoder knows.
        target_vocab_size: Ids the decoder knows (V).
        eos_id: Ends every source and every target.
        unk_id: Never generated.
        pad_id: Never generated; None where the vocabulary has no such id.
        start_id: Put into the decoder first; None for the zero vector (Marian).
        forces_first: Whether a sequence may name the token that its target begins with, whatever
            the logits: that of its language in M2M100 and NLLB.
        shared_embeddings: One table for encoder, decoder and output.
        tied_output: The output layer uses the decoder's table.
        decoder: What stands first in a decoder layer.
        norm: Where layer norm stands.
        norms_keys: Whether pre-norm self-attention attends to the normed stream. Marian norms
            only what asks: keys and values are of the stream as it is.
        activation: Nonlinearity of the feed-forward layers.
        sinusoids: Which position table.
        position_offset: The row of that table for the first token.
        scales_embeddings: Whether a token's vector is multiplied by sqrt(D).
        has_output_bias: Whether something is added to the logits.
        layer_norm_eps: Added to the variance.
        max_length_factor: A target ends at this many times its source's tokens.
        alignment_layer: The decoder layer, from 0, whose cross-attention the checkpoint says was
            trained to align; None where it says nothing.
        alignment_head: The head of that layer.
    """

    d_model: int
    num_heads: int
    ffn_dim: int
    encoder_layers: int
    decoder_layers: int
    source_vocab_size: int
    target_vocab_size: int
    eos_id: int = 0
    unk_id: int = 1
    pad_id: int | None = None
    start_id: int | None = None
    forces_first: bool = False
    shared_embeddings: bool = True
    tied_output: bool = True
    decoder: DecoderKind = DecoderKind.SSRU
    norm: NormPosition = NormPosition.POST
    norms_keys: bool = True
    activation: Activation = Activation.RELU
    sinusoids: Sinusoids = Sinusoids.MARIAN
    position_offset: int = 0
    scales_embeddings: bool = True
    has_output_bias: bool = True
    layer_norm_eps: float = 1e-6
    max_length_factor: float = 3.0
    alignment_layer: int | None = None
    alignment_head: int = 0

    def __post_init__(self) -> None:
        reasons = [
            f"{name} is {getattr(self, name)}, it must be at least 1"
            for name in ("d_model", "num_heads", "ffn_dim", "encoder_layers", "decoder_layers")
            if getattr(self, name) < 1
        ]
        if not reasons and self.d_model % (2 * self.num_heads):
            reasons.append(f"d_model {self.d_model} is not even per head of {self.num_heads}")
        if self.shared_embeddings and self.source_vocab_size != self.target_vocab_size:
            reasons.append(
                f"shared embeddings with vocabularies of {self.source_vocab_size} "
                f"and {self.target_vocab_size}"
            )
        if reasons:
            raise UnsupportedModelError("this configuration", reasons)

    @property
    def forbidden_ids(self) -> list[int]:
        """Ids that are never generated."""
        return [i for i in (self.unk_id, self.pad_id) if i is not None]

    @property
    def head_dim(self) -> int:
        """K, the width of one head."""
        return self.d_model // self.num_heads

    def max_target_tokens(self, source_tokens: int) -> int:
        """The length at which a target is ended, EOS included, whatever else is in the batch.

        Marian takes the longest source of the batch here, which makes a sentence's
        translation depend on its neighbours; ours depends on the sentence alone.
        """
        return max(1, -int(-self.max_length_factor * source_tokens // 1))
