"""Defines ModelConfig: the sizes and switches of a translation model, for all families."""

from dataclasses import dataclass
from enum import StrEnum

from model.errors import UnsupportedModelError


class DecoderKind(StrEnum):
    """The first sublayer of a decoder layer; SSRU is the unit of Kim et al. 2019."""

    SSRU = "ssru"
    SELF_ATTENTION = "self-attention"


class NormPosition(StrEnum):
    """The place of layer norm: after a residual sum (Vaswani et al. 2017), or before a sublayer."""

    POST = "post"
    PRE = "pre"


class Activation(StrEnum):
    """The nonlinearity between the two feed-forward layers.

    GELU_TANH and GELU_SIGMOID are the approximations of GELU by Hendrycks and Gimpel (2016).
    Marian uses GELU_SIGMOID, which is x · sigmoid(1.702 x).
    """

    RELU = "relu"
    SWISH = "swish"
    GELU = "gelu"
    GELU_TANH = "gelu-tanh"
    GELU_SIGMOID = "gelu-sigmoid"


class Sinusoids(StrEnum):
    """The conventions for the frequencies of the position table.

    With n = d_model / 2, frequency k is 10000^(-k/(n-1)) in Marian. It is 10000^(-k/n) in the
    Hugging Face port of Marian. Both put all sines in the first half of a position's vector, and
    all cosines in the second half.
    """

    MARIAN = "marian"
    HUGGING_FACE = "hugging-face"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes and switches of one encoder-decoder Transformer.

    Attributes:
        d_model: Width of the residual stream (D).
        num_heads: Number of attention heads (H). `d_model` must be a multiple of 2 H.
        ffn_dim: Width between the two feed-forward layers (F).
        target_vocab_size: Number of ids in the decoder's vocabulary (V).
        unk_id: Id of the unknown token, which is never generated.
        pad_id: Id of the padding token, which is never generated; None if there is no such id.
        start_id: Id of the decoder's first input; None for a token vector of zeros (Marian).
        forces_first: Whether a sequence may prescribe the first token of its target, which names
            the target language in M2M100 and NLLB.
        tied_output: Whether the output layer uses the decoder's embedding table.
        norms_keys: Whether pre-norm self-attention takes keys and values from the normalized
            stream. Marian normalizes only the queries' input.
        position_offset: Row of the position table for the first token.
        scales_embeddings: Whether token embeddings are multiplied by sqrt(D).
        layer_norm_eps: Number added to the variance in layer norm.
        max_length_factor: Maximum ratio of target tokens to source tokens.
        alignment_layer: Decoder layer, counted from 0, whose cross-attention was trained to
            align tokens; None if the checkpoint names no such layer.
        alignment_head: Head of `alignment_layer` that was trained to align tokens.

    Raises:
        UnsupportedModelError: A size is below 1, or sizes do not fit together.
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
            reasons.append(
                f"d_model {self.d_model} is not a multiple of 2 x {self.num_heads} heads"
            )
        if self.shared_embeddings and self.source_vocab_size != self.target_vocab_size:
            reasons.append(
                f"shared embeddings need equal vocabularies, not {self.source_vocab_size} "
                f"and {self.target_vocab_size} ids"
            )
        if reasons:
            raise UnsupportedModelError("this configuration", reasons)

    @property
    def forbidden_ids(self) -> list[int]:
        return [i for i in (self.unk_id, self.pad_id) if i is not None]

    @property
    def aligning_layer(self) -> int:
        """Returns the decoder layer that was trained to align; the first usually aligns best."""
        return 0 if self.alignment_layer is None else self.alignment_layer

    @property
    def aligning_head(self) -> int | None:
        """Returns the head of `aligning_layer` that aligns tokens; None for the mean of heads."""
        return None if self.alignment_layer is None else self.alignment_head

    @property
    def has_biases(self) -> bool:
        return True

    @property
    def head_dim(self) -> int:
        return self.d_model // self.num_heads

    def max_target_tokens(self, source_tokens: int) -> int:
        """Returns the maximum number of tokens of a target, EOS included."""
        return max(1, -int(-self.max_length_factor * source_tokens // 1))
