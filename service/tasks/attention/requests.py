"""Defines the requests for attention: the JSON bodies of /attention and its sub-routes.

The models refuse requests whose faults can be found without looking at a loaded model. The module
must be imported fast, so it does not import numpy.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)

from service.tasks.parameters import (
    ListOf,
    NotBool,
    Parameters,
    Positive,
    example,
    not_empty,
    refuse,
)

Kind = Literal["encoder", "decoder", "cross"]
Reduce = Literal["none", "mean_heads", "max_heads", "mean_layers_heads", "rollout"]
Norm = Literal["weights", "value_norms", "alti", "value_zeroing"]
Format = Literal["json", "npz", "safetensors", "bertviz"]
Include = Literal["vectors", "output", "output_weight", "block"]

MAX_NAMED_TOKENS = 100
"""Largest number of tokens that a request for probabilities may name."""

MAX_PARTS = 1000
"""Largest number of entries in each of the lists `heads` and `edges` of a knock-out."""

OF_TRANSLATION = (
    "source target target_text probabilities detachment split translate "
    "alignment_layer alignment_head alignment_shift"
)
OF_TASK = {
    "translate": ("translations", OF_TRANSLATION.split()),
    "embed": ("embedding", ["prompt_name"]),
    "rerank": ("reranking", ["text_pair", "raw_scores"]),
}
"""Maps a task to its purpose and to its parameters, which other tasks refuse."""

PAIR_TASKS = ("rerank",)
ENCODER_TASKS = ("embed", *PAIR_TASKS)

RawScores = Annotated[
    bool, Field(description="With `rerank`: return logits in place of scores from 0 to 1.")
]


def _check_numbers(value: Any, info: ValidationInfo) -> Any:
    if value != "all" and not (isinstance(value, list) and all(type(n) is int for n in value)):
        refuse(f'{info.field_name} parameter must be "all" or a list of numbers, such as [0, -1]')
    return value


def _check_head(value: Any, info: ValidationInfo) -> Any:
    if value != "mean" and type(value) is not int:
        refuse(f'{info.field_name} parameter must be a number or "mean"')
    return value


def _check_probabilities(value: Any) -> Any:
    if value is not None and not isinstance(value, dict):
        refuse('probabilities parameter must be an object, such as {"top_k": 5}')
    return value


def _check_encoder(kinds: Iterable[Kind], task: str) -> None:
    for kind in kinds:
        if kind != "encoder":
            refuse(f"task {task} has no {kind} attention; ask for encoder, or leave it out")


Numbers = Annotated[
    Literal["all"] | list[int], Field(json_schema_extra=not_empty), BeforeValidator(_check_numbers)
]
"""Layer numbers or head numbers, or `all`. Negative numbers count from the end."""


class AttentionQuestion(Parameters):
    """The parameters that all requests about attention have in common."""

    model_config = ConfigDict(extra="forbid")

    source: str | None = Field(None, description="Language code, or `auto`.")
    target: str | None = Field(None, description="Language code.")
    model: str | None = Field(
        None,
        description="Name as in /v1/models, in place of `source` and `target`. If the request also "
        "has languages, they must be the languages of the model.",
    )
    task: Literal["translate", "embed", "rerank"] = Field(
        "translate",
        description="`embed` reads each text without a translation, as in /embed. `rerank` reads "
        "each text as the query of a pair, as in /rerank; it is the default with `text_pair`.",
    )
    prompt_name: str | None = Field(
        None,
        description="With `embed`: name of the prompt that is put before each text. By default it "
        "is the default prompt of the model.",
    )
    api_key: Any = Field(None, description="Key, if the server has keys.")

    @property
    def has_target(self) -> bool:
        return self.task not in ENCODER_TASKS

    @property
    def has_pair(self) -> bool:
        return self.task in PAIR_TASKS

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        is_pair = getattr(self, "text_pair", None) is not None
        if is_pair and "task" not in self.model_fields_set:
            self.task = "rerank"
        for task, (purpose, names) in OF_TASK.items():
            for name in names if task != self.task else ():
                if (value := getattr(self, name, None)) is not None and value is not False:
                    refuse(f"{name} is only for {purpose}; leave it out, or use task {task}")
        if not getattr(self, "text", None):
            refuse("missing text parameter")
        if self.has_pair and not is_pair:
            refuse(
                "missing text_pair parameter; a cross-encoder reads a query, which is text, "
                "and a document, which is text_pair"
            )
        codes = {"source": self.source, "target": self.target} if self.has_target else {}
        for name, code in {**codes, "model": self.model}.items():
            is_needed = self.model is None and name != "model"
            if is_needed if code is None else not code.strip():
                refuse(f"missing {name} parameter")
        return self


class OneTextQuestion(AttentionQuestion):
    """The parameters of a request about one sequence."""

    text: str = Field(description="Text, read as one sequence.", json_schema_extra=not_empty)
    target_text: str | None = Field(
        None, description="Translation of the text; by default the model's own translation."
    )
    text_pair: str | None = Field(
        None, description="With `rerank`: the document. The text is then the query."
    )

    @property
    def input(self) -> tuple[str, ...]:
        return (self.text,) if self.text_pair is None else (self.text, self.text_pair)


class ProbabilitiesQuestion(BaseModel):
    """The tokens whose probabilities the response contains, at each position of the target."""

    model_config = ConfigDict(extra="forbid")

    top_k: Positive = Field(5, description="Number of likeliest tokens at each position.")
    tokens: ListOf[StrictInt | StrictStr] = Field(
        [],
        description="Words or vocabulary ids. The response contains the log-probability and the "
        "rank of each word or id at each position. A word stands for its first token.",
        max_length=MAX_NAMED_TOKENS,
    )


class AttentionRequest(AttentionQuestion):
    """The body of `POST /attention`, as JSON."""

    model_config = example(text="The cat sat on the mat.", source="en", target="pt")

    text: str | ListOf[str] = Field(
        description="Text, or list of texts. Each text is one sequence.",
        json_schema_extra=not_empty,
    )
    target_text: str | ListOf[str | None] | None = Field(
        None,
        description="Translation, or list of translations; null means the model's own translation.",
    )
    text_pair: str | ListOf[str] | None = Field(
        None,
        description="With `rerank`: the document of each query, a text or a list as `text` is.",
    )
    raw_scores: RawScores = False
    kinds: ListOf[Kind] = Field(
        ["cross"],
        description="One or more of `encoder`, `decoder` and `cross`. With `reduce` `rollout` or "
        "`task` `embed`, the default is `encoder`.",
        json_schema_extra=not_empty,
    )
    layers: Numbers = Field(
        [-1],
        description="Layer numbers, or `all`. Negative numbers count from the end: -1 is the "
        "last layer. With `format` `bertviz` the default is `all`.",
    )
    heads: Numbers = Field("all", description="Head numbers, or `all`; -1 is the last head.")
    reduce: Reduce = Field(
        "mean_heads",
        description="Reduction over heads and layers. `format` `bertviz` shows every head. With "
        "this format, the default is `none`, and `mean_heads` has the same effect as `none`.",
    )
    norm: Norm = Field(
        "weights",
        description="`weights` returns the attention weights. `value_norms` returns each weight "
        "times the norm of its value vector after the output projection. `alti` and "
        "`value_zeroing` return the contributions of tokens, computed for all heads together.",
    )
    level: Literal["token", "word"] = Field(
        "token", description="Attention between tokens, or between words."
    )
    top_k: Positive | None = Field(
        None,
        description="Return only the `top_k` largest values of each row. The field `indices` of "
        "the response has their columns.",
    )
    decimals: Annotated[int, Field(ge=0, le=9), NotBool] | None = Field(
        None,
        description="Number of decimals of all computed values in the response. By default, values "
        "are not rounded.",
    )
    probabilities: Annotated[
        ProbabilitiesQuestion | None, BeforeValidator(_check_probabilities)
    ] = Field(
        None,
        description="Return also the probability of each target token, the likeliest tokens, "
        "and the probability of each token in `tokens`. `{}` selects the defaults.",
    )
    detachment: bool = Field(
        False,
        description="Return also a score that is high if a translation does not follow its source.",
    )
    format: Format | None = Field(
        None,
        description="By default the header Accept decides: npz for application/x-npz, safetensors "
        "for application/x-safetensors, and JSON for all other types.",
    )
    split: bool = Field(
        False,
        description="Split texts into sentences, and return one item for each sentence. A request "
        "with `target_text` cannot be split.",
    )
    alignment_layer: StrictInt | None = Field(
        None,
        description="Layer whose cross-attention aligns words. By default it is the layer that was "
        "trained to align words, or else layer 0.",
    )
    alignment_head: Annotated[int | Literal["mean"], BeforeValidator(_check_head)] | None = Field(
        None,
        description="Head of the layer `alignment_layer`, or `mean`. By default it is the head "
        "that was trained to align words, or else `mean`.",
    )
    alignment_shift: Literal[0, 1] | None = Field(
        None,
        description="With `1`, a row of attention belongs to the token that the decoder reads. "
        "With `0`, the row belongs to the token that the decoder predicts. The default is `0` for "
        "a layer that was trained to align words, and `1` for any other layer.",
    )

    @property
    def inputs(self) -> list[tuple[str, ...]]:
        texts = [self.text] if isinstance(self.text, str) else self.text
        if self.text_pair is None:
            return [(text,) for text in texts]
        pairs = [self.text_pair] if isinstance(self.text_pair, str) else self.text_pair
        return list(zip(texts, pairs, strict=True))

    @property
    def target_texts(self) -> list[str | None] | None:
        return [self.target_text] if isinstance(self.target_text, str) else self.target_text

    @model_validator(mode="after")
    def _fill(self) -> Self:
        """Sets the defaults that depend on other fields.

        Generated clients send the documented default of every field. The format bertviz shows every
        head, so `mean_heads`, the default of `reduce`, counts as absent.
        """
        if self.format == "bertviz":
            if "layers" not in self.model_fields_set:
                self.layers = "all"
            if self.reduce == "mean_heads":
                self.reduce = "none"
        if "kinds" not in self.model_fields_set:
            if self.reduce == "rollout" or not self.has_target:
                self.kinds = ["encoder"]
        return self

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if not self.has_target:
            _check_encoder(self.kinds, self.task)
        if self.target_text is not None and self.split:
            refuse("target_text cannot be split; send sentences as lists, without split")
        for name, remedy in (
            ("target_text", "or null in target_text for the model's own translation"),
            ("text_pair", "and repeat a query for each of its documents"),
        ):
            given = getattr(self, name)
            if given is not None and _shape(given) != _shape(self.text):
                refuse(
                    f"{name} is {_shape(given)} and text is {_shape(self.text)}; send one {name} "
                    f"for each text, {remedy}"
                )
        return self

    @model_validator(mode="after")
    def _check_bertviz(self) -> Self:
        if self.format != "bertviz":
            return self
        if self.reduce != "none":
            refuse(
                f"bertviz shows every head, so reduce {self.reduce} is not possible; "
                "leave reduce out or use none"
            )
        for name in ("probabilities", "detachment"):
            if getattr(self, name):
                refuse(f"bertviz has no {name}; leave {name} out, or use another format")
        if self.top_k is not None:
            refuse(f"bertviz needs whole rows, so it refuses top_k {self.top_k}; leave top_k out")
        return self


def _shape(texts: str | list[str] | list[str | None]) -> str:
    return "one text" if isinstance(texts, str) else f"a list of {len(texts)}"


class StepsRequest(OneTextQuestion):
    """The body of `POST /attention/steps`, as JSON."""

    model_config = example(text="The cat sat.", source="en", target="pt", query=2)

    kind: Kind = Field(
        "cross", description="`encoder`, `decoder` or `cross`. With task `embed`, only `encoder`."
    )
    layer: StrictInt = Field(-1, description="Number of the layer; -1 is the last layer.")
    head: StrictInt = Field(0, description="Number of the head; -1 is the last head.")
    query: StrictInt = Field(
        description="Number of the token whose attention is computed. Negative numbers count from "
        "the end. For `encoder` the token is a source token, otherwise a target token."
    )
    include: ListOf[Include] = Field(
        [],
        description="Parts to add to the response: `vectors` (query, keys, values), `output` (the "
        "output projection of all heads), `output_weight` (the same, with its matrix W_O), `block` "
        "(the token's vectors from the input of the layer to its output).",
    )

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if not self.has_target:
            if "kind" not in self.model_fields_set:
                self.kind = "encoder"
            _check_encoder([self.kind], self.task)
        return self


class HeadsQuestion(Parameters):
    """Heads of some layers."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind = Field("cross", description="`encoder`, `decoder` or `cross`.")
    layers: Numbers = Field("all", description="Layer numbers, or `all`; -1 is the last layer.")
    heads: Numbers = Field("all", description="Head numbers, or `all`; -1 is the last head.")


class SwitchedHeadsQuestion(HeadsQuestion):
    """Heads that are switched off, or made uniform."""

    uniform: StrictBool = Field(
        False, description="The heads stay, but attend to all tokens equally."
    )


class EdgeQuestion(HeadsQuestion):
    """An edge that is switched off: one token does not attend to another."""

    query: StrictInt = Field(description="Number of the attending token; -1 is the last token.")
    key: StrictInt = Field(description="Number of the attended token; -1 is the last token.")


class KnockoutQuestion(Parameters):
    """The parts of the model that are switched off together; `{}` switches off nothing."""

    model_config = ConfigDict(extra="forbid")

    heads: ListOf[SwitchedHeadsQuestion] = Field(
        [], description="Heads to switch off, or to make uniform.", max_length=MAX_PARTS
    )
    edges: ListOf[EdgeQuestion] = Field(
        [],
        description="Edges: pairs of tokens. The token `query` does not attend to the token `key`.",
        max_length=MAX_PARTS,
    )
    source_words: ListOf[StrictInt] = Field(
        [],
        description="Numbers of source words to which no token attends. A number is an index into "
        "`source_words` of the response.",
    )


class KnockoutBody(OneTextQuestion):
    """The body of `POST /attention/knockout`, as JSON."""

    model_config = example(
        text="The cat sat.", source="en", target="pt", knockouts=[{"source_words": [1]}]
    )

    knockouts: ListOf[KnockoutQuestion] = Field(
        description="One or more knock-outs; each is computed separately from the others.",
        json_schema_extra=not_empty,
    )
    translate: bool = Field(
        False, description="Return also the model's translation under each knock-out."
    )
    raw_scores: RawScores = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.has_target and not self.has_pair:
            refuse("a knockout is only for translations and pairs; use task translate or rerank")
        for part in [part for each in self.knockouts for part in [*each.heads, *each.edges]]:
            if not self.has_target and "kind" not in part.model_fields_set:
                part.kind = "encoder"
        if not self.knockouts:
            refuse("knockouts parameter is an empty list; send one or more, such as [{}]")
        return self
