"""What /attention and /attention/steps answer, as their documentation has it."""

from typing import Literal

from pydantic import BaseModel, Field

from service.api.attention.schemas import Norm, Reduce
from service.tasks.attention.matrices import Kind


class LabelsBody(BaseModel):
    """One side, token by token or word by word."""

    text: str
    tokens: list[str] = Field(description="Pieces as the vocabulary spells them, or words.")
    ids: list[int] | list[list[int]] = Field(description="Of each token, or of each word's.")
    offsets: list[tuple[int, int]] = Field(
        description="Code points of the text, white space around tokens left out."
    )
    special: list[bool] = Field(description="True for tokens that are no text: the end.")


class TargetLabelsBody(LabelsBody):
    """The target: rows of cross-attention predict `tokens` where `input_tokens` are put in."""

    input_tokens: list[str] = Field(description='Begins with the start; "" is the zero vector.')


class AttentionBody(BaseModel):
    """Attention of one kind."""

    kind: Kind
    layers: list[int] = Field(description="Those that went in.")
    heads: list[int] | Literal["mean", "max", "rollout"]
    reduce: Reduce
    norm: Norm
    shape: tuple[int, int, int, int] = Field(description="Of `data`.")
    data: list[list[list[list[float]]]] = Field(
        description="[layer][head][row][column]; 1 layer or head where they were reduced. Rows "
        "are source tokens (encoder) or target tokens; columns are source tokens, or for the "
        "decoder what is put in."
    )
    indices: list[list[list[list[int]]]] | None = Field(
        None, description="With `top_k`: the column of each value."
    )


class AlignmentBody(BaseModel):
    """Which source word each target word goes with."""

    source_words: list[tuple[int, int]] = Field(description="[first, end) of each word.")
    target_words: list[tuple[int, int]]
    pairs: list[tuple[int, int, float]] = Field(
        description="Source word, target word, and how much this one attends to that."
    )
    pharaoh: str = Field(description="The same as `0-0 1-2`.")


class AttentionItemBody(BaseModel):
    """One sequence. Words of its alignment are spans of tokens, whatever the level."""

    source: LabelsBody
    target: TargetLabelsBody | None = Field(None, description="Not with task `embed`.")
    attentions: list[AttentionBody]
    alignment: AlignmentBody | None = Field(None, description="Not with task `embed`.")


class AttentionUsage(BaseModel):
    """What was read, written and shown."""

    source_tokens: int
    target_tokens: int = Field(description="0 with task `embed`.")
    attention_values: int = Field(description="Numbers in all `data`.")


class AttentionResponse(BaseModel):
    """One item for each text or, with `split`, sentence."""

    model: str
    items: list[AttentionItemBody]
    usage: AttentionUsage


class BertvizItem(BaseModel):
    """Keyword arguments of bertviz' views, once each layer is a tensor."""

    encoder_attention: list[list[list[list[list[float]]]]] | None = Field(
        description="[layer][0][head][row][column]"
    )
    decoder_attention: list[list[list[list[list[float]]]]] | None
    cross_attention: list[list[list[list[list[float]]]]] | None
    encoder_tokens: list[str]
    decoder_tokens: list[str] | None = Field(
        description="What is predicted or, with self-attention of the decoder, what is put in."
    )


class BertvizResponse(BaseModel):
    """With `format` bertviz."""

    items: list[BertvizItem]


class StepsToken(BaseModel):
    """The token that attends."""

    index: int
    token: str = Field(description="In the decoder the one that is put in.")
    predicted: str | None = Field(description="In the decoder the one that is predicted.")


class StepsRow(BaseModel):
    """One token that is attended to."""

    key: int
    token: str
    score: float = Field(description="q · k")
    scaled: float = Field(description="score × scale")
    bias: float | None = Field(
        None, description="What a model with relative positions (MPNet) adds for the distance."
    )
    weight: float = Field(description="Softmax of `scaled`, plus `bias`, over the rows.")
    value_norm: float = Field(description="Length of weight × v.")
    value: list[float] = Field(description="First 8 numbers of weight × v.")


class StepsVectors(BaseModel):
    """With `vectors`: what scores and sums are made of."""

    q: list[float]
    k: list[list[float]]
    v: list[list[float]]


class StepsOutput(BaseModel):
    """With `output`: result = weight · concatenated + bias."""

    concatenated: list[float] = Field(description="z of all heads for this query.")
    bias: list[float]
    result: list[float]
    weight: list[list[float]] | None = Field(None, description="W_O, with `output_weight`.")


class StepsResponse(BaseModel):
    """Attention of one token in one head, step by step."""

    model: str
    kind: Kind
    layer: int
    head: int
    head_dim: int
    scale: float = Field(description="1 / sqrt(head_dim)")
    source: LabelsBody
    target: TargetLabelsBody | None = Field(None, description="Not with task `embed`.")
    query: StepsToken
    rows: list[StepsRow]
    z: list[float] = Field(description="Sum of weight × v.")
    vectors: StepsVectors | None = None
    output: StepsOutput | None = None
