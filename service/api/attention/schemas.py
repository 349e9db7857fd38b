"""Schema of the requests of /attention, and the parameters shared with its sub-routes.

The schemas refuse requests whose faults can be found without looking at a model.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)

from service.api.request.parameters import (
    ListOf,
    NotBool,
    Parameters,
    Positive,
    not_empty,
    refuse,
)
from service.errors import SHOWN_CHARS
from service.tasks.attention.requests import (
    InspectionRequest,
    Kind,
    Level,
    Norm,
    ProbabilityOptions,
    Reduce,
    View,
)

Format = Literal["json", "npz", "safetensors", "bertviz"]
Task = Literal["translate", "embed"]

MAX_NAMED_TOKENS = 100
"""Largest number of tokens that a request for probabilities may name."""

HAS_TARGET = {"translate": True, "embed": False}
"""Maps a task to True if the task reads each text together with a translation."""


OF_TRANSLATION = {
    "source": None,
    "target": None,
    "target_text": None,
    "probabilities": None,
    "detachment": False,
    "split": False,
    "alignment_layer": None,
    "alignment_head": None,
    "alignment_shift": None,
}
"""Parameters that task `embed` does not accept, each with the value that counts as absent."""


def has_target(task: Any) -> bool:
    """Returns whether a task reads translations; True if the value is not a known task."""
    return HAS_TARGET.get(task, True) if isinstance(task, str) else True


def check_numbers(value: Any, info: ValidationInfo) -> Any:
    """Accepts only `all`, or a list of one or more different integers."""
    if value != "all" and not (isinstance(value, list) and all(type(n) is int for n in value)):
        refuse(f'{info.field_name} parameter must be "all" or a list of numbers, such as [0, -1]')
    return check_choice(value, info)


def check_choice(value: Any, info: ValidationInfo) -> Any:
    """Refuses a list that is empty or contains a member twice."""
    if value == []:
        refuse(f"{info.field_name} parameter is an empty list; name one or more, or leave it out")
    return check_doubles(value, info)


def check_doubles(value: Any, info: ValidationInfo) -> Any:
    """Refuses a list that contains a member twice."""
    seen = set()
    for member in value if isinstance(value, list) else []:
        spelling = str(member)
        if spelling in seen:
            shown = spelling[:SHOWN_CHARS]
            refuse(f"{info.field_name} parameter has {shown} twice; name each once")
        seen.add(spelling)
    return value


def check_head(value: Any, info: ValidationInfo) -> Any:
    """Accepts only `mean` or an integer."""
    if value != "mean" and type(value) is not int:
        refuse(f'{info.field_name} parameter must be a number or "mean"')
    return value


def check_probabilities(value: Any) -> Any:
    """Accepts only an object or null."""
    if value is not None and not isinstance(value, dict):
        refuse('probabilities parameter must be an object, such as {"top_k": 5}')
    return value


Numbers = Annotated[
    Literal["all"] | list[int],
    Field(json_schema_extra=not_empty),
    BeforeValidator(check_numbers),
]
"""Layer numbers or head numbers, or `all`."""

Decimals = Annotated[int, Field(ge=0, le=9), NotBool]


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

    def options(self) -> ProbabilityOptions:
        """Returns the options in the form that `service.tasks.attention` takes."""
        return ProbabilityOptions(self.top_k, self.tokens)


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
    task: Task = Field(
        "translate", description="`embed` reads each text without a translation, as in /embed."
    )
    prompt_name: str | None = Field(
        None,
        description="With `embed`: name of the prompt that is put before each text. By default it "
        "is the default prompt of the model.",
    )
    api_key: Any = Field(None, description="Key, if the server has keys.")

    @property
    def has_target(self) -> bool:
        """Whether each text is read together with a translation."""
        return HAS_TARGET[self.task]

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if self.has_target:
            if self.prompt_name is not None:
                refuse("prompt_name is only for embedding; leave it out, or use task embed")
            return self
        for name, nothing in OF_TRANSLATION.items():
            if getattr(self, name, nothing) != nothing:
                refuse(f"{name} is only for translations; leave it out with task embed")
        return self

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if not self.has_target:
            if self.model is not None and not self.model.strip():
                refuse("missing model parameter")
            return self
        codes = {"source": self.source, "target": self.target, "model": self.model}
        for name, code in codes.items():
            is_needed = self.model is None and name != "model"
            if is_needed if code is None else not code.strip():
                refuse(f"missing {name} parameter")
        return self


class AttentionRequest(AttentionQuestion):
    """The body of `POST /attention`, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"text": "The cat sat on the mat.", "source": "en", "target": "pt"}
        }
    )

    text: str | ListOf[str] = Field(
        description="Text, or list of texts. Each text is one sequence.",
        json_schema_extra=not_empty,
    )
    target_text: str | ListOf[str | None] | None = Field(
        None,
        description="Translation, or list of translations; null means the model's own translation.",
    )
    kinds: Annotated[ListOf[Kind], BeforeValidator(check_choice)] = Field(
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
    level: Level = Field("token", description="Attention between tokens, or between words.")
    top_k: Positive | None = Field(
        None,
        description="Return only the `top_k` largest values of each row. The field `indices` of "
        "the response has their columns.",
    )
    decimals: Decimals | None = Field(
        None,
        description="Number of decimals of all computed values in the response. By default, values "
        "are not rounded.",
    )
    probabilities: Annotated[ProbabilitiesQuestion | None, BeforeValidator(check_probabilities)] = (
        Field(
            None,
            description="Return also the probability of each target token, the likeliest tokens, "
            "and the probability of each token in `tokens`. `{}` selects the defaults.",
        )
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
    alignment_head: Annotated[int | Literal["mean"], BeforeValidator(check_head)] | None = Field(
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
    def texts(self) -> list[str]:
        """Returns the texts as a list."""
        return [self.text] if isinstance(self.text, str) else self.text

    @property
    def view(self) -> View:
        """Returns the options `level`, `top_k` and `decimals` of the response."""
        return View(self.level, self.top_k, self.decimals)

    def inspection(self) -> InspectionRequest:
        """Returns the request in the form that `service.tasks.attention` takes."""
        given = self.target_text
        return InspectionRequest(
            source=self.source,
            target=self.target,
            model=self.model,
            prompt_name=self.prompt_name,
            texts=self.texts,
            target_texts=[given] if isinstance(given, str) else given,
            is_split=self.split,
            kinds=self.kinds,
            layers=self.layers,
            heads=self.heads,
            reduce=self.reduce,
            norm=self.norm,
            needs_equal_layers=self.format == "bertviz",
            view=self.view,
            probabilities=None if self.probabilities is None else self.probabilities.options(),
            has_detachment=self.detachment,
            alignment_layer=self.alignment_layer,
            alignment_head=self.alignment_head,
            alignment_shift=self.alignment_shift,
        )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Adds the defaults that depend on other fields.

        Generated clients send the documented default of every field. The default of `reduce` is
        `mean_heads`, but the format bertviz always shows every head. In a request for bertviz,
        `mean_heads` therefore counts as absent.
        """
        if not isinstance(fields, dict):
            return fields
        given = {name: value for name, value in fields.items() if value is not None}
        defaults: dict[str, Any] = {}
        if given.get("format") == "bertviz":
            defaults |= {"reduce": "none", "layers": "all"}
            if given.get("reduce") == "mean_heads":
                del given["reduce"]
        if given.get("reduce") == "rollout" or not has_target(given.get("task")):
            defaults |= {"kinds": ["encoder"]}
        return {**defaults, **given}

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if not self.text:
            refuse("missing text parameter")
        if not self.has_target:
            check_embedded(self.kinds)
        if self.target_text is None:
            return self
        if self.split:
            refuse("target_text cannot be split; send sentences as lists, without split")
        if _shape(self.target_text) != _shape(self.text):
            refuse(
                f"target_text is {_shape(self.target_text)} and text is {_shape(self.text)}; "
                "send one translation for each text, or null for the model's own translation"
            )
        return self

    @model_validator(mode="after")
    def _check_rollout(self) -> Self:
        if self.reduce != "rollout":
            return self
        if "cross" in self.kinds:
            refuse(
                "rollout follows self-attention and has no cross; "
                "leave cross out of kinds, or use another reduce"
            )
        if self.norm == "value_norms":
            refuse(
                f"rollout is computed from rows that sum to 1, not from {self.norm}; leave norm or "
                "reduce out"
            )
        if self.heads != "all":
            shown = str(self.heads)[:SHOWN_CHARS]
            refuse(f'rollout needs all heads, not only {shown}; leave heads out or use "all"')
        return self

    @model_validator(mode="after")
    def _check_bertviz(self) -> Self:
        if self.format == "bertviz" and self.reduce != "none":
            refuse(
                f"bertviz shows every head, so reduce {self.reduce} is not possible; "
                "leave reduce out or use none"
            )
        for name in ("probabilities", "detachment"):
            if self.format == "bertviz" and getattr(self, name):
                refuse(f"bertviz has no {name}; leave {name} out, or use another format")
        if self.format == "bertviz" and self.top_k is not None:
            refuse(f"bertviz needs whole rows, so it refuses top_k {self.top_k}; leave top_k out")
        return self


def _shape(texts: str | list[str] | list[str | None]) -> str:
    return "one text" if isinstance(texts, str) else f"a list of {len(texts)}"


def check_embedded(kinds: Iterable[Kind]) -> None:
    """Refuses all kinds of attention except `encoder`, because task `embed` has no others."""
    for kind in kinds:
        if kind != "encoder":
            refuse(f"task embed has no {kind} attention; ask for encoder, or leave it out")
