"""Defines the replies of /attention, /attention/steps and /attention/knockout.

A reply has only the fields that are set. Its arrays become lists in JSON.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, GetPydanticSchema
from pydantic_core import core_schema

from model.inspection.query import AttentionKind, AttentionNorm, Reduction
from model.tokenization.tokenizer import Span
from service.tasks.alignment.alignment import Alignment


def lists(kind: Any) -> GetPydanticSchema:
    """Describes an array as the type that it has in JSON, such as `list[float]`."""
    array = core_schema.is_instance_schema(np.ndarray)
    return GetPydanticSchema(
        lambda _, handler: core_schema.json_or_python_schema(handler(kind), array)
    )


Floats = Annotated[NDArray[np.float32], lists(list[float])]
Matrix = Annotated[NDArray[np.float32], lists(list[list[float]])]
Maps = Annotated[NDArray[np.float32], lists(list[list[list[list[float]]]])]
Layers = Annotated[NDArray[np.float32], lists(list[list[list[list[list[float]]]]])]
LogProbs = Annotated[NDArray[np.float32], lists(list[float | None])]
"""Logarithms of probabilities, in JSON null if a probability is 0."""
ManyLogProbs = Annotated[NDArray[np.float32], lists(list[list[float | None]])]
Flags = Annotated[NDArray[np.bool_], lists(list[bool])]
Integers = Annotated[NDArray[np.int64], lists(list[int])]
ManyIntegers = Annotated[NDArray[np.int64], lists(list[list[int]])]
Columns = Annotated[NDArray[np.int32], lists(list[list[list[list[int]]]])]


OF_TRANSLATIONS = "Absent except with task `translate`."


@dataclass(frozen=True, slots=True)
class Labels:
    """The tokens or the words of the source or of the target."""

    text: str
    tokens: Annotated[
        list[str],
        Field(description="Tokens as the vocabulary spells them; with `level` `word`, words."),
    ]
    ids: Annotated[
        list[int] | list[list[int]], Field(description="Id of each token, or ids of each word.")
    ]
    offsets: Annotated[
        list[Span],
        Field(
            description="[start, end) of each token or word in `text`, in code points. White space "
            "around a token or word is excluded."
        ),
    ]
    special: Annotated[
        list[bool], Field(description="True for tokens that are not text, such as EOS.")
    ]


@dataclass(frozen=True, slots=True)
class TargetLabels(Labels):
    """The tokens or the words of the target.

    Row t of cross-attention belongs to the decode step that reads entry t of `input_tokens` and
    predicts entry t of `tokens`.
    """

    input_tokens: Annotated[
        list[str],
        Field(
            description="Tokens that the decoder reads, beginning with its start token. If the "
            "first string is empty, the model has no start token, and its decoder begins with a "
            "vector of zeros."
        ),
    ]


@dataclass(frozen=True, slots=True)
class PairLabels(Labels):
    """The tokens or the words of a query and its document."""

    parts: Annotated[
        list[Literal["query", "document"] | None],
        Field(
            description="Part of the pair that each token or word belongs to; null for special "
            "tokens, and for the prompt of a language model."
        ),
    ]


class AttentionBody(BaseModel):
    """Attention of one kind."""

    kind: AttentionKind
    layers: list[int] = Field(description="Indices of the layers, from 0.")
    heads: list[int] | Literal["mean", "max", "rollout", "all"]
    reduce: Reduction
    norm: AttentionNorm
    shape: tuple[int, int, int, int] = Field(description="Shape of `data`.")
    data: Maps = Field(
        description="[layer][head][row][column]; a reduced dimension has size 1. Rows are source "
        "tokens for `encoder`, and target tokens for `decoder` and `cross`. Columns are source "
        "tokens; for `decoder` they are the decoder's input tokens."
    )
    indices: Columns | None = Field(
        default=None, description="With `top_k`: the column of each value."
    )


class LikeliestBody(BaseModel):
    """The likeliest tokens at each position, likeliest first."""

    tokens: list[list[str]] = Field(
        description="A list is shorter than `top_k` if fewer tokens have a probability above 0."
    )
    ids: ManyIntegers = Field(
        description="Ids of `tokens`. If fewer than `top_k` tokens have a probability above 0, -1 "
        "fills the rest of the list."
    )
    log_probs: ManyLogProbs = Field(description="null if the probability is 0.")


class NamedBody(BaseModel):
    """The named tokens, with their log-probability and rank at each position."""

    tokens: list[str]
    ids: list[int]
    is_candidate: Flags
    log_probs: ManyLogProbs = Field(description="null if the probability is 0.")
    ranks: ManyIntegers = Field(
        description="1 plus the number of candidates with a larger probability."
    )


class ProbabilitiesBody(BaseModel):
    """The probabilities at each position of the target. Logarithms are natural.

    A candidate is a token that the decoder can choose. S is the sum of exp(logit) over all
    candidates. The probability of any token is exp(logit) / S, so the probabilities of the
    candidates sum to 1. Other tokens are not part of this sum.
    """

    num_candidates: int = Field(description="Number of candidates.")
    log_probs: LogProbs = Field(description="Log-probability of each target token.")
    ranks: Integers = Field(
        description="Rank of each target token: 1 plus the number of candidates with a larger "
        "probability."
    )
    entropies: Floats = Field(description="Entropy at each position, in nats.")
    is_candidate: Flags = Field(description="Whether each target token is a candidate.")
    likeliest: LikeliestBody
    named: NamedBody


class AttentionItemBody(BaseModel):
    """The attention of one text or, with `split`, of one sentence.

    `alignment` gives the words as spans of tokens, even if `level` is `word`.
    """

    source: PairLabels | Labels
    target: TargetLabels | None = Field(default=None, description=OF_TRANSLATIONS)
    attentions: list[AttentionBody]
    score: float | None = Field(
        default=None,
        description="Score of a pair, as in /rerank. Absent except with task `rerank`.",
    )
    alignment: Alignment | None = Field(default=None, description=OF_TRANSLATIONS)
    detachment: float | None = Field(
        default=None,
        description="Distance, from 0 to 1, between two distributions over the source tokens: the "
        "mean attention of all target tokens, and the uniform distribution. A high value is a sign "
        "of a translation that does not follow its source. Absent unless the request has "
        "`detachment`.",
    )
    probabilities: ProbabilitiesBody | None = Field(
        default=None, description="Absent unless the request has `probabilities`."
    )


class AttentionUsage(BaseModel):
    """Counts of source tokens, target tokens and attention values."""

    source_tokens: int
    target_tokens: int = Field(description="0 except with task `translate`.")
    attention_values: int = Field(description="Number of values in all `data`.")


class AttentionResponse(BaseModel):
    """Attention of each text or, with `split`, of each sentence."""

    model: str
    items: list[AttentionItemBody]
    usage: AttentionUsage


class BertvizItem(BaseModel):
    """Keyword arguments of bertviz' `head_view` and `model_view`.

    The client must convert each layer to a tensor.
    """

    encoder_attention: Layers | None = Field(description="[layer][0][head][row][column]")
    decoder_attention: Layers | None
    cross_attention: Layers | None
    encoder_tokens: list[str]
    decoder_tokens: list[str] | None = Field(
        description="The decoder's input tokens if self-attention of the decoder was requested; "
        "otherwise the predicted tokens."
    )


class BertvizResponse(BaseModel):
    items: list[BertvizItem]


class StepsToken(BaseModel):
    """The token that attends to the tokens in `rows`."""

    index: int
    token: str = Field(
        description="The token; for `decoder` and `cross`, the token that the decoder reads."
    )
    predicted: str | None = Field(
        description="For `decoder` and `cross`, the predicted token; otherwise null."
    )


class StepsRow(BaseModel):
    """One token that receives attention.

    q is the query of the attending token. k and v are the key and the value of the token that
    receives attention.
    """

    key: int
    token: str
    score: float = Field(description="q · k")
    scaled: float = Field(description="score × scale")
    bias: float | None = Field(
        default=None,
        description="Bias for the distance between the attending token and this token (MPNet, "
        "ModernBERT). -1e9 means that the layer does not attend to this token.",
    )
    weight: float = Field(description="Softmax of `scaled` + `bias` over all rows.")
    value_norm: float = Field(description="Norm of weight × v.")
    value: Floats = Field(description="First 8 numbers of weight × v.")


class StepsVectors(BaseModel):
    """The query, the keys and the values of the head, if `include` contains `vectors`."""

    q: Floats
    k: Matrix
    v: Matrix


class StepsOutput(BaseModel):
    """The output projection, if `include` contains `output` or `output_weight`.

    The formula is result = weight · concatenated + bias. `weight` is the matrix W_O. `bias` is the
    vector b_O.
    """

    concatenated: Floats = Field(description="Vectors z of all heads for this query, joined.")
    bias: Floats
    result: Floats
    weight: Matrix | None = Field(
        default=None, description="W_O, if `include` contains `output_weight`."
    )


class StepsEmbedding(BaseModel):
    """The vectors of the token before the first layer."""

    token: Floats
    position: Floats | None = Field(
        description="Vector of the position; null if the model adds no such vector."
    )
    sum: Floats = Field(description="Input of the first layer: the sum, normalised in some models.")


class StepsBlock(BaseModel):
    """The vectors of the token in the layer, if `include` contains `block`."""

    embedding: StepsEmbedding
    input: Floats = Field(description="Vector before the attention sublayer.")
    attention: Floats = Field(
        description="Output of the attention sublayer: all heads times W_O, plus b_O."
    )
    attended: Floats = Field(description="input + attention, normalised in a post-norm model.")
    feed_forward: Floats | None = Field(
        description="Output of the feed-forward sublayer. Null for the decoder's self-attention, "
        "because the next sublayer is cross-attention."
    )
    output: Floats = Field(description="Output of the layer.")


class StepsResponse(BaseModel):
    """Attention of one token in one head, step by step."""

    model: str
    kind: AttentionKind
    layer: int
    head: int
    head_dim: int
    scale: float = Field(description="1 / sqrt(head_dim)")
    source: PairLabels | Labels
    target: TargetLabels | None = Field(default=None, description=OF_TRANSLATIONS)
    query: StepsToken
    rows: list[StepsRow]
    z: Floats = Field(description="Sum of weight × v over all rows.")
    vectors: StepsVectors | None = None
    output: StepsOutput | None = None
    block: StepsBlock | None = None


class NewTranslation(BaseModel):
    """The model's translation while the parts of the knock-out are switched off."""

    text: str
    is_cut: bool = Field(
        description="True if the translation was cut at its length limit. The limit is 2n + 8 "
        "tokens, where n is the number of tokens of `target`. If the model has a smaller limit, "
        "the limit of the model applies."
    )


class KnockoutEffectBody(BaseModel):
    """The changes that one knock-out causes."""

    log_probs: LogProbs | None = Field(
        default=None, description=f"Log-probability of each target token. {OF_TRANSLATIONS}"
    )
    changes: LogProbs | None = Field(
        default=None,
        description="Log-probabilities with this knock-out minus those without any knock-out. "
        f"{OF_TRANSLATIONS}",
    )
    score: float | None = Field(
        default=None, description="Score of the pair. Absent except with task `rerank`."
    )
    total_change: float | None = Field(
        description="Sum of `changes`. With task `rerank`: the score minus that without any "
        "knock-out."
    )
    translation: NewTranslation | None = Field(
        default=None, description="Absent unless the request has `translate`."
    )


class KnockoutResponse(BaseModel):
    """The changes that each knock-out causes.

    A log-probability or a change is null if it is not finite, because a probability is 0.
    """

    model: str
    source: PairLabels | Labels
    source_words: list[tuple[int, int]] = Field(
        description="[first, end) of each source word, in tokens."
    )
    target: TargetLabels | None = Field(default=None, description=OF_TRANSLATIONS)
    log_probs: LogProbs | None = Field(
        default=None,
        description="Log-probability of each target token if nothing is switched off. "
        f"{OF_TRANSLATIONS}",
    )
    score: float | None = Field(
        default=None,
        description="Score of the pair if nothing is switched off. Absent except with task "
        "`rerank`.",
    )
    knockouts: list[KnockoutEffectBody] = Field(description="In the order of the request.")
