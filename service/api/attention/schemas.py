"""What clients of /attention send; what needs no model to be refused is refused here."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationInfo,
    model_validator,
)

from service.api.attention.formats import Format
from service.api.parameters import SHOWN_CHARS, ListOf, Parameters, Whole, refuse
from service.tasks.attention.matrices import Kind, Level, View

Reduce = Literal["none", "mean_heads", "max_heads", "mean_layers_heads", "rollout"]
Norm = Literal["weights", "value_norms"]
Include = Literal["vectors", "output", "output_weight"]
Task = Literal["translate", "embed"]

OF_TRANSLATION = {
    "source": None,
    "target": None,
    "target_text": None,
    "split": False,
    "alignment_layer": None,
    "alignment_head": None,
    "alignment_shift": None,
}
"""What means nothing where a text is embedded, and the value that says nothing."""


def check_numbers(value: Any, info: ValidationInfo) -> Any:
    """Refuses what is neither `all` nor a list of different numbers."""
    if value != "all" and not (isinstance(value, list) and all(type(n) is int for n in value)):
        refuse(f'{info.field_name} parameter must be "all" or a list of numbers, such as [0, -1]')
    return check_choice(value, info)


def check_choice(value: Any, info: ValidationInfo) -> Any:
    """Refuses a list that is empty or has something twice."""
    if value == []:
        refuse(f"{info.field_name} parameter is an empty list; name one or more, or leave it out")
    return check_doubles(value, info)


def check_doubles(value: Any, info: ValidationInfo) -> Any:
    """Refuses a list that has something twice."""
    seen = set()
    for member in value if isinstance(value, list) else []:
        spelling = str(member)
        if spelling in seen:
            shown = spelling[:SHOWN_CHARS]
            refuse(f"{info.field_name} parameter has {shown} twice; name each once")
        seen.add(spelling)
    return value


def check_head(value: Any, info: ValidationInfo) -> Any:
    """Refuses what is neither `mean` nor a number."""
    if value != "mean" and type(value) is not int:
        refuse(f'{info.field_name} parameter must be a number or "mean"')
    return value


Numbers = Annotated[Literal["all"] | list[int], BeforeValidator(check_numbers)]


class AttentionQuestion(Parameters):
    """What all questions about attention have in common."""

    model_config = ConfigDict(extra="forbid")

    source: str | None = Field(None, description="Language code, or `auto`.")
    target: str | None = Field(None, description="Language code.")
    model: str | None = Field(
        None,
        description="Name as in /v1/models, in place of `source` and `target`; "
        "what is given of these too has to agree.",
    )
    task: Task = Field(
        "translate", description="`embed` for a text as an embedding model reads it: alone."
    )
    prompt_name: str | None = Field(
        None,
        description="With `embed`: name of what is put before each text; by default the model's.",
    )
    api_key: Any = Field(None, description="Accepted, and not looked at.")

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if self.task == "translate":
            if self.prompt_name is not None:
                refuse("prompt_name is of embedding models; leave it out, or use task embed")
            return self
        for name, nothing in OF_TRANSLATION.items():
            if getattr(self, name, nothing) != nothing:
                refuse(f"{name} is of translations; leave it out with task embed")
        return self

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if self.task == "embed":
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
    """`POST /attention`, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"text": "The cat sat on the mat.", "source": "en", "target": "pt"}
        }
    )

    text: str | ListOf[str] = Field(description="Text, or list of texts: each is one sequence.")
    target_text: str | ListOf[str | None] | None = Field(
        None, description="Translation, or list of as many; null is the model's own."
    )
    kinds: Annotated[ListOf[Kind], BeforeValidator(check_choice)] = Field(
        ["cross"],
        description="Of `encoder`, `decoder` and `cross`; with rollout or `embed` the default is "
        "encoder.",
    )
    layers: Numbers = Field(
        [-1],
        description="Numbers from 0, negative from the end, or `all`, the default for bertviz.",
    )
    heads: Numbers = Field("all", description="Numbers from 0, negative from the end, or `all`.")
    reduce: Reduce = Field(
        "mean_heads", description="What is taken together; for bertviz the default is none."
    )
    norm: Norm = Field(
        "weights",
        description="`value_norms`: weights times the norm of what each value adds to the output.",
    )
    level: Level = Field("token", description="Between tokens, or between words.")
    top_k: Whole | None = Field(
        None, ge=1, description="Only so many values of each row, the largest, with `indices`."
    )
    decimals: Whole | None = Field(
        None, ge=0, le=9, description="Round values to so many; by default they are float32."
    )
    format: Format | None = Field(
        None,
        description="By default what Accept asks for: application/x-npz, "
        "application/x-safetensors, or else JSON.",
    )
    split: bool = Field(False, description="One item per sentence.")
    alignment_layer: StrictInt | None = Field(
        None, description="Layer whose cross-attention aligns words; by default the model's own."
    )
    alignment_head: Annotated[int | Literal["mean"], BeforeValidator(check_head)] | None = Field(
        None, description="Its head, or `mean`; by default the model's own."
    )
    alignment_shift: Literal[0, 1] | None = Field(
        None, description="1 where a row attends for the token put in, not for the predicted one."
    )

    @property
    def view(self) -> View:
        """What becomes of the matrices once they are computed."""
        return View(self.level, self.top_k, self.decimals)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Defaults that depend on other fields."""
        if not isinstance(fields, dict):
            return fields
        defaults: dict[str, Any] = {}
        if fields.get("format") == "bertviz":
            defaults |= {"reduce": "none", "layers": "all"}
        if fields.get("reduce") == "rollout" or fields.get("task") == "embed":
            defaults |= {"kinds": ["encoder"]}
        given = {name: value for name, value in fields.items() if value is not None}
        return {**defaults, **given}

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if not self.text:
            refuse("missing text parameter")
        if self.task == "embed":
            check_embedded(self.kinds)
        if self.target_text is None:
            return self
        if self.split:
            refuse("target_text cannot be split; send sentences as lists, without split")
        if _shape(self.target_text) != _shape(self.text):
            refuse(
                f"target_text is {_shape(self.target_text)} and text is {_shape(self.text)}; "
                "send one for each text, or null for the model's own"
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
        if self.norm != "weights":
            refuse(f"rollout is of weights, not of {self.norm}; leave norm or reduce out")
        if self.heads != "all":
            shown = str(self.heads)[:SHOWN_CHARS]
            refuse(f'rollout is over all heads, not {shown}; leave heads out or use "all"')
        return self

    @model_validator(mode="after")
    def _check_bertviz(self) -> Self:
        if self.format == "bertviz" and self.reduce != "none":
            refuse(f"bertviz shows every head, not {self.reduce}; leave reduce out or use none")
        if self.format == "bertviz" and self.top_k is not None:
            refuse(f"bertviz needs whole rows, not top_k {self.top_k}; leave top_k out")
        return self


def _shape(texts: str | list[str] | list[str | None]) -> str:
    return "one text" if isinstance(texts, str) else f"a list of {len(texts)}"


class StepsRequest(AttentionQuestion):
    """`POST /attention/steps`, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"text": "The cat sat.", "source": "en", "target": "pt", "query": 2}
        }
    )

    text: str = Field(description="Text: one sequence.")
    target_text: str | None = Field(
        None, description="Its translation; by default the model's own."
    )
    kind: Kind = Field(
        "cross", description="`encoder`, `decoder` or `cross`; with `embed` it is encoder."
    )
    layer: StrictInt = Field(-1, description="From 0, or negative from the end.")
    head: StrictInt = Field(0, description="From 0, or negative from the end.")
    query: StrictInt = Field(
        description="Token whose attention is computed: of the source for the encoder, else of "
        "the target. From 0, or negative from the end."
    )
    include: Annotated[ListOf[Include], BeforeValidator(check_doubles)] = Field(
        [],
        description="Of `vectors` (query, keys, values), `output` (all heads times W_O), and "
        "`output_weight` (W_O too).",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """The default that depends on the task."""
        if isinstance(fields, dict) and fields.get("task") == "embed":
            return {**fields, "kind": fields.get("kind") or "encoder"}
        return fields

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if not self.text:
            refuse("missing text parameter")
        if self.task == "embed":
            check_embedded([self.kind])
        return self


def check_embedded(kinds: Iterable[Kind]) -> None:
    """Refuses all kinds but that of an encoder."""
    for kind in kinds:
        if kind != "encoder":
            refuse(f"a text that is embedded has no {kind}; ask for encoder, or leave it out")
