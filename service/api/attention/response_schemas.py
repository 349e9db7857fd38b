"""Schemas of the responses of /attention and /attention/steps, for OpenAPI."""

from typing import Literal

from pydantic import BaseModel, Field

from service.tasks.attention.requests import Kind, Norm, Reduce


class LabelsBody(BaseModel):
    """The tokens or the words of one side."""

    text: str
    tokens: list[str] = Field(description="Pieces as the vocabulary spells them, or words.")
    ids: list[int] | list[list[int]] = Field(description="Id of each token, or ids of each word.")
    offsets: list[tuple[int, int]] = Field(
        description="Code points of the text, without white space around tokens."
    )
    special: list[bool] = Field(description="True for tokens that are not text, such as the end.")


class TargetLabelsBody(LabelsBody):
    """The target: rows of cross-attention read `input_tokens` and predict `tokens`."""

    input_tokens: list[str] = Field(
        description='Tokens that the decoder reads, from the start; "" is the zero vector.'
    )


class AttentionBody(BaseModel):
    """Attention of one kind."""

    kind: Kind
    layers: list[int] = Field(description="Numbers of the layers.")
    heads: list[int] | Literal["mean", "max", "rollout"]
    reduce: Reduce
    norm: Norm
    shape: tuple[int, int, int, int] = Field(description="Shape of `data`.")
    data: list[list[list[list[float]]]] = Field(
        description="[layer][head][row][column]; 1 layer or head where they were reduced. Rows "
        "are source tokens (encoder) or target tokens. Columns are source tokens, and for the "
        "decoder its input tokens."
    )
    indices: list[list[list[list[int]]]] | None = Field(
        None, description="With `top_k`: the column of each value."
    )


class AlignmentBody(BaseModel):
    """The alignment of each target word to a source word."""

    source_words: list[tuple[int, int]] = Field(description="[first, end) of each word.")
    target_words: list[tuple[int, int]]
    pairs: list[tuple[int, int, float]] = Field(
        description="Source word, target word, and attention of the target word to the source word."
    )
    pharaoh: str = Field(description="The same as `0-0 1-2`.")


class AttentionItemBody(BaseModel):
    """One sequence. The words of its alignment are spans of tokens, at every level."""

    source: LabelsBody
    target: TargetLabelsBody | None = Field(None, description="Absent with task `embed`.")
    attentions: list[AttentionBody]
    alignment: AlignmentBody | None = Field(None, description="Absent with task `embed`.")


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
    """Keyword arguments of bertviz' views; each layer has to be made a tensor."""

    encoder_attention: list[list[list[list[list[float]]]]] | None = Field(
        description="[layer][0][head][row][column]"
    )
    decoder_attention: list[list[list[list[list[float]]]]] | None
    cross_attention: list[list[list[list[list[float]]]]] | None
    encoder_tokens: list[str]
    decoder_tokens: list[str] | None = Field(
        description="Predicted tokens, or with self-attention of the decoder its input tokens."
    )


class BertvizResponse(BaseModel):
    """Response with `format` bertviz."""

    items: list[BertvizItem]


class StepsToken(BaseModel):
    """The token that attends."""

    index: int
    token: str = Field(description="In the decoder the input token.")
    predicted: str | None = Field(description="In the decoder the predicted token; otherwise null.")


class StepsRow(BaseModel):
    """One token that receives attention."""

    key: int
    token: str
    score: float = Field(description="q · k")
    scaled: float = Field(description="score × scale")
    bias: float | None = Field(
        None, description="Bias of a model with relative positions (MPNet) for the distance."
    )
    weight: float = Field(description="Softmax of `scaled`, plus `bias`, over the rows.")
    value_norm: float = Field(description="Length of weight × v.")
    value: list[float] = Field(description="First 8 numbers of weight × v.")


class StepsVectors(BaseModel):
    """With `vectors`: the query, the keys and the values of the head."""

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
    target: TargetLabelsBody | None = Field(None, description="Absent with task `embed`.")
    query: StepsToken
    rows: list[StepsRow]
    z: list[float] = Field(description="Sum of weight × v.")
    vectors: StepsVectors | None = None
    output: StepsOutput | None = None
