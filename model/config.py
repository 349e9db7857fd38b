"""Defines the sizes and switches of translation and embedding models. Does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


def too_small(config: object, names: Sequence[str]) -> list[str]:
    values = [(name, getattr(config, name)) for name in names]
    return [f"{name} is {value}, it must be at least 1" for name, value in values if value < 1]


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
        layers = "encoder_layers", "decoder_layers"
        reasons = too_small(self, ["d_model", "num_heads", "ffn_dim", *layers])
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
        return max(1, -int(-self.max_length_factor * source_tokens // 1))


@dataclass(frozen=True, slots=True)
class Rotary:
    """The rotary positions of one layer, which rotate queries and keys (ModernBERT).

    `theta` is the base of the frequencies. A token attends to `window` tokens on each of its sides,
    or to all tokens if `window` is None.
    """

    theta: float
    window: int | None = None


@dataclass(frozen=True, slots=True)
class TextEncoderConfig:
    """The sizes and switches of one text encoder: BERT, RoBERTa, XLM-RoBERTa, MPNet or ModernBERT.

    Attributes:
        d_model: Width of the residual stream (D).
        num_heads: Number of attention heads (H); divides d_model.
        ffn_dim: Width between the two feed-forward layers (F).
        max_positions: Number of rows of the position table; with rotary positions, the largest
            number of tokens of a text.
        position_offset: Row of the position table for a text's first token. RoBERTa and its
            descendants leave the rows up to the padding id unused.
        token_types: Number of rows of the token type table; 0 if the model has no such table. The
            tokens of the second text of a pair use row 1 (cross-encoders); all others use row 0.
        relative_buckets: Number of buckets of the relative position bias (MPNet); 0 for no bias.
        rotary: Rotary positions of each layer (ModernBERT); empty if there is a position table.
            Layers with rotary positions are pre-norm, without biases, with a feed-forward gate.
        layer_norm_eps: Number added to the variance in layer norm.

    Raises:
        UnsupportedModelError: A size is below 1, or sizes do not fit together.
    """

    d_model: int
    num_heads: int
    ffn_dim: int
    layers: int
    vocab_size: int
    max_positions: int
    position_offset: int = 0
    token_types: int = 0
    relative_buckets: int = 0
    rotary: tuple[Rotary, ...] = ()
    activation: Activation = Activation.GELU
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        reasons = too_small(self, ["d_model", "num_heads", "ffn_dim", "layers", "vocab_size"])
        if not reasons and self.d_model % self.num_heads:
            reasons.append(f"d_model {self.d_model} is not a multiple of {self.num_heads} heads")
        if self.max_tokens < 1:
            reasons.append(f"{self.max_positions} positions leave no room for a token")
        if self.relative_buckets % 4:
            reasons.append(f"relative_buckets is {self.relative_buckets}, not a multiple of 4")
        if self.rotary and not reasons and self.head_dim % 2:
            reasons.append(f"rotary positions need heads of an even size, not {self.head_dim}")
        if self.rotary and len(self.rotary) != self.layers:
            reasons.append(f"{len(self.rotary)} layers of {self.layers} have rotary positions")
        if reasons:
            raise UnsupportedModelError("this configuration", reasons)

    @property
    def norm(self) -> NormPosition:
        return NormPosition.PRE if self.rotary else NormPosition.POST

    @property
    def norms_keys(self) -> bool:
        return True

    @property
    def has_biases(self) -> bool:
        return not self.rotary

    @property
    def head_dim(self) -> int:
        return self.d_model // self.num_heads

    @property
    def max_tokens(self) -> int:
        """Returns the number of tokens for which there are positions, special tokens included."""
        return self.max_positions - self.position_offset


LayerConfig = ModelConfig | TextEncoderConfig


class Pooling(StrEnum):
    """The ways to reduce the vectors of a text's tokens to one (sentence-transformers, Pooling)."""

    CLS = "cls"
    MAX = "max"
    MEAN = "mean"
    MEAN_SQRT_LEN = "mean_sqrt_len_tokens"
    WEIGHTED_MEAN = "weightedmean"
    LAST_TOKEN = "lasttoken"


@dataclass(frozen=True, slots=True)
class DenseConfig:
    """A linear layer after pooling, with or without a bias and tanh."""

    inputs: int
    outputs: int
    has_bias: bool
    is_tanh: bool


@dataclass(frozen=True, slots=True)
class NormalizeConfig:
    """Division of a vector by its Euclidean norm."""


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """An encoder, its pooling and the modules after pooling.

    Attributes:
        pooling: At least one way of pooling; the results are concatenated in this order.
        max_tokens: Maximum number of tokens of a text, special tokens included.
        prompts: Named prefixes that can be put before a text.
        default_prompt: Name of the prefix for requests that name no prefix, if they get one.

    Raises:
        UnsupportedModelError: The parts do not fit together, or the default prompt is unknown.
    """

    encoder: TextEncoderConfig
    pooling: tuple[Pooling, ...] = (Pooling.MEAN,)
    modules: tuple[DenseConfig | NormalizeConfig, ...] = ()
    max_tokens: int = 512
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None

    def __post_init__(self) -> None:
        reasons = []
        if not self.pooling:
            reasons.append("no way of pooling is switched on")
        if not 1 <= self.max_tokens <= self.encoder.max_tokens:
            limit = self.encoder.max_tokens
            reasons.append(f"max_tokens is {self.max_tokens}, it must be from 1 to {limit}")
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            reasons.append(f"the default prompt {self.default_prompt!r} is not among the prompts")
        width = self.pooled_size
        for module in self.modules:
            if isinstance(module, DenseConfig):
                if module.inputs != width:
                    reasons.append(
                        f"a Dense of {module.inputs} inputs gets vectors of size {width}"
                    )
                width = module.outputs
        if reasons:
            raise UnsupportedModelError("this configuration", reasons)

    @property
    def pooled_size(self) -> int:
        return self.encoder.d_model * len(self.pooling)

    @property
    def output_size(self) -> int:
        """Returns the width of a text's vector (E)."""
        dense = [module.outputs for module in self.modules if isinstance(module, DenseConfig)]
        return dense[-1] if dense else self.pooled_size

    @property
    def is_normalized(self) -> bool:
        return bool(self.modules) and isinstance(self.modules[-1], NormalizeConfig)
