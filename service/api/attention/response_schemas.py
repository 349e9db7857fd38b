"""Schemas of the responses of /attention, /attention/steps and /attention/knockout."""

from typing import Literal

from pydantic import BaseModel, Field

from service.tasks.alignment.alignment import Alignment
from service.tasks.attention.requests import Kind, Norm, Reduce
from service.tasks.attention.results import Labels, TargetLabels


class AttentionBody(BaseModel):
    """Attention of one kind."""

    kind: Kind
    layers: list[int] = Field(description="Indices of the layers, from 0.")
    heads: list[int] | Literal["mean", "max", "rollout", "all"]
    reduce: Reduce
    norm: Norm
    shape: tuple[int, int, int, int] = Field(description="Shape of `data`.")
    data: list[list[list[list[float]]]] = Field(
        description="[layer][head][row][column]; a reduced dimension has size 1. Rows are source "
        "tokens for `encoder`, and target tokens for `decoder` and `cross`. Columns are source "
        "tokens; for `decoder` they are the decoder's input tokens."
    )
    indices: list[list[list[list[int]]]] | None = Field(
        None, description="With `top_k`: the column of each value."
    )


class LikeliestBody(BaseModel):
    """The likeliest tokens at each position, likeliest first."""

    tokens: list[list[str]] = Field(
        description="A list is shorter than `top_k` if fewer tokens have a probability above 0."
    )
    ids: list[list[int]] = Field(
        description="Ids of `tokens`. If fewer than `top_k` tokens have a probability above 0, -1 "
        "fills the rest of the list."
    )
    log_probs: list[list[float | None]] = Field(description="null if the probability is 0.")


class NamedBody(BaseModel):
    """The named tokens, with their log-probability and rank at each position."""

    tokens: list[str]
    ids: list[int]
    is_candidate: list[bool]
    log_probs: list[list[float | None]] = Field(description="null if the probability is 0.")
    ranks: list[list[int]] = Field(
        description="1 plus the number of candidates with a larger probability."
    )


class ProbabilitiesBody(BaseModel):
    """The probabilities at each position of the target. Logarithms are natural.

    A candidate is a token that the decoder can choose. S is the sum of exp(logit) over all
    candidates. The probability of any token is exp(logit) / S, so the probabilities of the
    candidates sum to 1. Other tokens are not part of this sum.
    """

    num_candidates: int = Field(description="Number of candidates.")
    log_probs: list[float | None] = Field(description="Log-probability of each target token.")
    ranks: list[int] = Field(
        description="Rank of each target token: 1 plus the number of candidates with a larger "
        "probability."
    )
    entropies: list[float] = Field(description="Entropy at each position, in nats.")
    is_candidate: list[bool] = Field(description="Whether each target token is a candidate.")
    likeliest: LikeliestBody
    named: NamedBody


class AttentionItemBody(BaseModel):
    """The attention of one text or, with `split`, of one sentence.

    `alignment` gives the words as spans of tokens, even if `level` is `word`.
    """

    source: Labels
    target: TargetLabels | None = Field(None, description="Absent with task `embed`.")
    attentions: list[AttentionBody]
    alignment: Alignment | None = Field(None, description="Absent with task `embed`.")
    detachment: float | None = Field(
        None,
        description="Distance, from 0 to 1, between two distributions over the source tokens: the "
        "mean attention of all target tokens, and the uniform distribution. A high value is a sign "
        "of a translation that does not follow its source. Absent unless the request has "
        "`detachment`.",
    )
    probabilities: ProbabilitiesBody | None = Field(
        None, description="Absent unless the request has `probabilities`."
    )


class AttentionUsage(BaseModel):
    """Counts of source tokens, target tokens and attention values."""

    source_tokens: int
    target_tokens: int = Field(description="0 with task `embed`.")
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

    encoder_attention: list[list[list[list[list[float]]]]] | None = Field(
        description="[layer][0][head][row][column]"
    )
    decoder_attention: list[list[list[list[list[float]]]]] | None
    cross_attention: list[list[list[list[list[float]]]]] | None
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
        None,
        description="Bias for the distance between the attending token and this token (MPNet, "
        "ModernBERT). -1e9 means that the layer does not attend to this token.",
    )
    weight: float = Field(description="Softmax of `scaled` + `bias` over all rows.")
    value_norm: float = Field(description="Norm of weight × v.")
    value: list[float] = Field(description="First 8 numbers of weight × v.")


class StepsVectors(BaseModel):
    """The query, the keys and the values of the head, if `include` contains `vectors`."""

    q: list[float]
    k: list[list[float]]
    v: list[list[float]]


class StepsOutput(BaseModel):
    """The output projection, if `include` contains `output` or `output_weight`.

    The formula is result = weight · concatenated + bias. `weight` is the matrix W_O. `bias` is the
    vector b_O.
    """

    concatenated: list[float] = Field(description="Vectors z of all heads for this query, joined.")
    bias: list[float]
    result: list[float]
    weight: list[list[float]] | None = Field(
        None, description="W_O, if `include` contains `output_weight`."
    )


class StepsEmbedding(BaseModel):
    """The vectors of the token before the first layer."""

    token: list[float]
    position: list[float] | None = Field(
        description="Vector of the position; null if the model adds no such vector."
    )
    sum: list[float] = Field(
        description="Input of the first layer: the sum, normalised in some models."
    )


class StepsBlock(BaseModel):
    """The vectors of the token in the layer, if `include` contains `block`."""

    embedding: StepsEmbedding
    input: list[float] = Field(description="Vector before the attention sublayer.")
    attention: list[float] = Field(
        description="Output of the attention sublayer: all heads times W_O, plus b_O."
    )
    attended: list[float] = Field(description="input + attention, normalised in a post-norm model.")
    feed_forward: list[float] | None = Field(
        description="Output of the feed-forward sublayer. Null for the decoder's self-attention, "
        "because the next sublayer is cross-attention."
    )
    output: list[float] = Field(description="Output of the layer.")


class StepsResponse(BaseModel):
    """Attention of one token in one head, step by step."""

    model: str
    kind: Kind
    layer: int
    head: int
    head_dim: int
    scale: float = Field(description="1 / sqrt(head_dim)")
    source: Labels
    target: TargetLabels | None = Field(None, description="Absent with task `embed`.")
    query: StepsToken
    rows: list[StepsRow]
    z: list[float] = Field(description="Sum of weight × v over all rows.")
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

    log_probs: list[float | None] = Field(description="Log-probability of each target token.")
    changes: list[float | None] = Field(
        description="Log-probabilities with this knock-out minus those without any knock-out."
    )
    total_change: float | None = Field(description="Sum of `changes`.")
    translation: NewTranslation | None = Field(
        None, description="Absent unless the request has `translate`."
    )


class KnockoutResponse(BaseModel):
    """The changes that each knock-out causes.

    A log-probability or a change is null if it is not finite, because a probability is 0.
    """

    model: str
    source: Labels
    source_words: list[tuple[int, int]] = Field(
        description="[first, end) of each source word, in tokens."
    )
    target: TargetLabels
    log_probs: list[float | None] = Field(
        description="Log-probability of each target token if nothing is switched off."
    )
    knockouts: list[KnockoutEffectBody] = Field(description="In the order of the request.")
