"""Defines the sizes and switches of translation and embedding models. Does not import torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from model.errors import UnsupportedModelError

MAX_LENGTH_FACTOR = 3.0  # Marian's default


class DecoderKind(StrEnum):
    """The first sublayer of a decoder layer; SSRU is the unit of Kim et al. 2019."""

    SSRU = "ssru"
    SELF_ATTENTION = "self-attention"


class NormPosition(StrEnum):
    """The place of norms: after a residual sum (Vaswani et al. 2017), or before a sublayer.

    With BOTH, one norm is before the sublayer, and another one on its output, before the sum.
    """

    POST = "post"
    PRE = "pre"
    BOTH = "both"


class Activation(StrEnum):
    """GELU_TANH and GELU_SIGMOID are the approximations of GELU by Hendrycks and Gimpel (2016).

    Marian uses GELU_SIGMOID, which is x · sigmoid(1.702 x).
    """

    RELU = "relu"
    SWISH = "swish"
    GELU = "gelu"
    GELU_TANH = "gelu-tanh"
    GELU_SIGMOID = "gelu-sigmoid"
    TANH = "tanh"


class Sinusoids(StrEnum):
    """The conventions for the frequencies of the position table.

    With n = d_model / 2, frequency k is 10000^(-k/(n-1)) in Marian, and 10000^(-k/n) in its port to
    Hugging Face. Both put all sines before all cosines. OpenNMT-py has the frequencies of the port,
    with sines and cosines in turn.
    """

    MARIAN = "marian"
    HUGGING_FACE = "hugging-face"
    OPENNMT = "opennmt"


@dataclass(frozen=True, slots=True)
class NormSpec:
    """Layer norm, or RMS norm (Zhang and Sennrich 2019), which has no mean and no bias."""

    eps: float = 1e-6  # added to the variance, or to the mean square
    has_bias: bool = True
    is_rms: bool = False


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions, which rotate queries and keys (Su et al. 2021, "RoFormer").

    `theta` is the base of the frequencies. The positions are divided by `divisor`.
    """

    theta: float
    divisor: float = 1.0


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """The heads of an attention sublayer, and the terms of a score beside query and key.

    If there are fewer heads of keys and values than of queries, several queries share each of them
    (Ainslie et al. 2023, "GQA").
    """

    heads: int  # of queries (H)
    kv_heads: int  # of keys and values, a divisor of `heads`
    head_dim: int  # size of a head (K)
    has_bias: bool = True  # whether the four projections have biases
    scale: float | None = None  # factor of the scores; None for 1 / sqrt(K)
    qk_norm: NormSpec | None = None  # of each head's queries and keys, before rotation
    rope: Rope | None = None
    buckets: int = 0  # of a relative position bias, which all layers share (T5); 0 for no bias
    max_distance: int = 128  # distance from which on all keys are in the last bucket
    # Whether each bucket has a vector, which queries and keys are compared with, and not a term for
    # each head (He et al. 2021, "DeBERTa").
    is_disentangled: bool = False
    has_alibi: bool = False  # whether the distance lowers the score (Press et al. 2022, "ALiBi")
    is_causal: bool = False  # whether a token attends only to itself and to earlier tokens
    window: int | None = None  # largest distance to a token that is attended; None for all

    def __post_init__(self) -> None:
        reasons = too_small(self, ["heads", "kv_heads", "head_dim"])
        if not reasons and self.heads % self.kv_heads:
            reasons.append(f"{self.heads} heads do not share {self.kv_heads} keys evenly")
        if self.buckets % 4:
            reasons.append(f"relative_buckets is {self.buckets}, not a multiple of 4")
        if self.rope and self.head_dim % 2:
            reasons.append(f"rotary positions need heads of an even size, not {self.head_dim}")
        refuse(reasons)

    @classmethod
    def of_width(cls, d_model: int, heads: int, **others: Any) -> "AttentionSpec":
        """Returns attention whose heads divide the width D, each with its own keys and values."""
        if heads < 1 or d_model % heads:
            refuse([f"d_model {d_model} is not a multiple of {heads} heads"])
        return cls(heads, heads, d_model // heads, **others)


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """One Transformer layer: its mixer, cross-attention in a decoder, and feed-forward."""

    d_model: int  # width of the residual stream (D)
    ffn_dim: int  # width between the two feed-forward layers (F)
    mixer: AttentionSpec | None  # None for an SSRU
    cross: AttentionSpec | None = None  # None in an encoder
    activation: Activation = Activation.GELU
    has_gate: bool = False  # whether the activation is multiplied by a product (Shazeer 2020, GLU)
    ffn_biases: tuple[bool, bool] = (True, True)  # of the first layer and its gate, of the second
    norm: NormSpec = NormSpec()
    norm_position: NormPosition = NormPosition.POST
    # Whether pre-norm self-attention takes keys and values from the normalized stream.
    # Marian normalizes only the queries' input.
    norms_keys: bool = True
    norms_first: bool = True  # whether a pre-norm layer has a norm before its mixer

    def __post_init__(self) -> None:
        refuse(too_small(self, ["d_model", "ffn_dim"]))


def refuse(reasons: list[str]) -> None:
    if reasons:
        raise UnsupportedModelError("this configuration", reasons)


def too_small(config: object, names: Sequence[str]) -> list[str]:
    values = [(name, getattr(config, name)) for name in names]
    return [f"{name} is {value}, it must be at least 1" for name, value in values if value < 1]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The sizes and switches of one encoder-decoder Transformer."""

    d_model: int  # width of the residual stream (D), a multiple of 2 H
    num_heads: int  # attention heads (H)
    ffn_dim: int  # width between the two feed-forward layers (F)
    encoder_layers: int
    decoder_layers: int
    source_vocab_size: int
    target_vocab_size: int  # ids in the decoder's vocabulary (V)
    eos_id: int = 0
    unk_id: int = 1  # never generated
    pad_id: int | None = None  # never generated; None if there is no such id
    start_id: int | None = None  # the decoder's first input; None for a vector of zeros (Marian)
    forces_first: bool = False  # a sequence may set its first target token (M2M100, NLLB)
    shared_embeddings: bool = True
    tied_output: bool = True  # whether the output layer uses the decoder's embedding table
    decoder: DecoderKind = DecoderKind.SSRU
    norm: NormPosition = NormPosition.POST
    norms_keys: bool = True  # see BlockSpec
    activation: Activation = Activation.RELU
    has_sinusoids: bool = True  # whether a position table is computed, of the kind `sinusoids`
    sinusoids: Sinusoids = Sinusoids.MARIAN
    position_offset: int = 0  # row of the position table for the first token
    max_positions: int = 0  # rows of a learned position table of each side; 0 for no such table
    norms_embedding: bool = False  # whether a norm follows the sum of the embedding
    scales_embeddings: bool = True  # whether token embeddings are multiplied by sqrt(D)
    scales_output: bool = False  # whether the last hidden states are divided by sqrt(D) (T5)
    has_output_bias: bool = True
    layer_norm_eps: float = 1e-6  # added to the variance in layer norm
    max_length_factor: float = MAX_LENGTH_FACTOR  # maximum ratio of target to source tokens
    min_target_tokens: int = 1  # number that a target may have, however short the source is
    # The decoder layer whose cross-attention was trained to align tokens, in its first head.
    alignment_layer: int | None = None  # counted from 0; None if the checkpoint names none
    block: BlockSpec | None = None  # of the encoder; None if the sizes and switches above say all

    def __post_init__(self) -> None:
        layers = "encoder_layers", "decoder_layers"
        reasons = too_small(self, ["d_model", "num_heads", "ffn_dim", *layers])
        if not reasons and self.block is None and self.d_model % (2 * self.num_heads):
            reasons.append(
                f"d_model {self.d_model} is not a multiple of 2 x {self.num_heads} heads"
            )
        if self.shared_embeddings and self.source_vocab_size != self.target_vocab_size:
            reasons.append(
                f"shared embeddings need equal vocabularies, not {self.source_vocab_size} "
                f"and {self.target_vocab_size} ids"
            )
        refuse(reasons)

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
        return None if self.alignment_layer is None else 0

    @property
    def head_dim(self) -> int:
        mixer = None if self.block is None else self.block.mixer
        return self.d_model // self.num_heads if mixer is None else mixer.head_dim

    @property
    def encoder_block(self) -> BlockSpec:
        return self.block or BlockSpec(
            self.d_model,
            self.ffn_dim,
            AttentionSpec.of_width(self.d_model, self.num_heads),
            activation=self.activation,
            norm=NormSpec(self.layer_norm_eps),
            norm_position=self.norm,
            norms_keys=self.norms_keys,
        )

    @property
    def decoder_block(self) -> BlockSpec:
        block = self.encoder_block
        assert block.mixer is not None
        mixer = replace(block.mixer, is_causal=True)
        is_ssru = self.decoder is DecoderKind.SSRU
        cross = replace(block.mixer, buckets=0)
        return replace(block, mixer=None if is_ssru else mixer, cross=cross)

    @property
    def blocks(self) -> tuple[BlockSpec, ...]:
        return self.encoder_block, self.decoder_block

    @property
    def max_tokens(self) -> int | None:
        return self.max_positions - self.position_offset if self.max_positions else None

    def max_target_tokens(self, source_tokens: int) -> int:
        most = max(self.min_target_tokens, -int(-self.max_length_factor * source_tokens // 1))
        return most if self.max_tokens is None else min(most, self.max_tokens)


@dataclass(frozen=True, slots=True)
class TextEncoderConfig:
    """One text encoder: its layers, and the tables of its embedding."""

    blocks: tuple[BlockSpec, ...]
    vocab_size: int
    # Rows of the position table. Without a table, the largest number of tokens of a text.
    max_positions: int
    has_positions: bool = True  # whether there is a position table
    # Row of the position table for a text's first token. RoBERTa and its descendants leave the
    # rows up to the padding id unused.
    position_offset: int = 0
    # Rows of the token type table; 0 if there is no table. The tokens of the second text of a pair
    # use row 1 (cross-encoders); all others use row 0.
    token_types: int = 0
    embedding_scale: float = 1.0  # factor of the vectors of tokens
    norms_embedding: bool = True  # whether a norm follows the sum of the embedding
    width: int = 0  # width of a table of tokens without layers (StaticEmbedding); 0 for an encoder

    def __post_init__(self) -> None:
        reasons = too_small(self, ["vocab_size", *(["layers"] if not self.width else [])])
        if self.max_tokens < 1:
            reasons.append(f"{self.max_positions} positions leave no room for a token")
        refuse(reasons)

    @property
    def layers(self) -> int:
        return len(self.blocks)

    @property
    def d_model(self) -> int:
        return self.blocks[0].d_model if self.blocks else self.width

    @property
    def ffn_dim(self) -> int:
        return self.blocks[0].ffn_dim

    @property
    def attention(self) -> AttentionSpec:
        """All layers have equal heads."""
        attention = self.blocks[0].mixer
        assert attention is not None
        return attention

    @property
    def num_heads(self) -> int:
        return self.attention.heads

    @property
    def max_tokens(self) -> int:
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
    """A linear layer after pooling, with or without a bias and an activation."""

    inputs: int
    outputs: int
    has_bias: bool = True
    activation: Activation | None = None


@dataclass(frozen=True, slots=True)
class LayerNormConfig:
    """A layer norm of the vectors after pooling."""

    width: int
    norm: NormSpec


@dataclass(frozen=True, slots=True)
class NormalizeConfig:
    """Division of a vector by its Euclidean norm."""


HeadConfig = DenseConfig | LayerNormConfig | NormalizeConfig
"""A module after pooling."""


@dataclass(frozen=True, slots=True)
class SparseConfig:
    """Pooling to a weight for each word of the vocabulary (SPLADE), and the head that scores words.

    The weight of a word is the largest of its scores over the tokens, or with `is_sum` their sum.
    An encoder without layers has a table of weights, and needs none of these fields.
    """

    activation: Activation = Activation.GELU
    norm_eps: float = 1e-12
    is_sum: bool = False
    num_logs: int = 1  # times that log(1 + x) is applied to the positive scores


@dataclass(frozen=True, slots=True)
class MultiVectorConfig:
    """A vector for each token (ColBERT), and how queries and documents are read.

    `markers` and `max_tokens` have an item for queries, and one for documents.
    """

    markers: tuple[int, ...]  # ids before each text; () if there are none
    max_tokens: tuple[int, int]
    filler: int | None  # id that fills queries up to their limit
    attends_filler: bool  # whether other tokens attend to it
    skipped: frozenset[int]  # ids in documents that get no vector


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """An encoder, its pooling and the modules after pooling. With `sparse` it has only an encoder.

    With `multi`, the modules compute a vector for each token.
    """

    encoder: TextEncoderConfig
    pooling: tuple[Pooling, ...] = (Pooling.MEAN,)  # the results are concatenated in this order
    modules: tuple[HeadConfig, ...] = ()
    max_tokens: int = 512  # of a text, special tokens included
    prompts: Mapping[str, str] = field(default_factory=dict)  # name to prefix of a text
    default_prompt: str | None = None  # name used if a request names none; None for no prefix
    sparse: SparseConfig | None = None
    multi: MultiVectorConfig | None = None
    pools_prompt: bool = True  # if not, its tokens are left out of the pooling

    def __post_init__(self) -> None:
        reasons = []
        if not self.pooling:
            reasons.append("no way of pooling is switched on")
        if not 1 <= self.max_tokens <= self.encoder.max_tokens:
            limit = self.encoder.max_tokens
            reasons.append(f"max_tokens is {self.max_tokens}, it must be from 1 to {limit}")
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            reasons.append(f"the default prompt {self.default_prompt!r} is not among the prompts")
        multi = self.multi
        hides = multi is not None and multi.filler is not None and not multi.attends_filler
        if hides and self.encoder.attention.is_disentangled:
            reasons.append("DeBERTa cannot leave the tokens that fill queries unattended")
        width = self.pooled_size
        for module in self.modules:
            inputs = getattr(module, "inputs", getattr(module, "width", width))
            if inputs != width:
                kind = type(module).__name__.removesuffix("Config")
                reasons.append(f"a {kind} of {inputs} inputs gets vectors of size {width}")
            width = module.outputs if isinstance(module, DenseConfig) else width
        refuse(reasons)

    @property
    def pooled_size(self) -> int:
        return self.encoder.d_model * len(self.pooling)

    @property
    def output_size(self) -> int:
        """Returns the width of a text's vector (E)."""
        if self.sparse is not None:
            return self.encoder.vocab_size
        dense = [module.outputs for module in self.modules if isinstance(module, DenseConfig)]
        return dense[-1] if dense else self.pooled_size

    @property
    def is_normalized(self) -> bool:
        return bool(self.modules) and isinstance(self.modules[-1], NormalizeConfig)
