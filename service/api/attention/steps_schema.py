"""Schema of the requests of /attention/steps."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, model_validator

from service.api.attention.schemas import (
    AttentionQuestion,
    check_doubles,
    check_embedded,
    has_target,
)
from service.api.request.parameters import ListOf, not_empty, refuse
from service.tasks.attention.requests import Kind, TraceRequest

Include = Literal["vectors", "output", "output_weight", "block"]


class StepsRequest(AttentionQuestion):
    """The body of `POST /attention/steps`, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"text": "The cat sat.", "source": "en", "target": "pt", "query": 2}
        }
    )

    text: str = Field(description="Text, read as one sequence.", json_schema_extra=not_empty)
    target_text: str | None = Field(
        None, description="Translation of the text; by default the model's own translation."
    )
    kind: Kind = Field(
        "cross", description="`encoder`, `decoder` or `cross`. With task `embed`, only `encoder`."
    )
    layer: StrictInt = Field(-1, description="Number of the layer; -1 is the last layer.")
    head: StrictInt = Field(0, description="Number of the head; -1 is the last head.")
    query: StrictInt = Field(
        description="Number of the token whose attention is computed. Negative numbers count from "
        "the end. For `encoder` the token is a source token, otherwise a target token."
    )
    include: Annotated[ListOf[Include], BeforeValidator(check_doubles)] = Field(
        [],
        description="Parts to add to the response: `vectors` (query, keys, values), `output` (the "
        "output projection of all heads), `output_weight` (the same, with its matrix W_O), `block` "
        "(the token's vectors from the input of the layer to its output).",
    )

    def trace(self) -> TraceRequest:
        """Returns the request in the form that `service.tasks.attention` takes."""
        return TraceRequest(
            source=self.source,
            target=self.target,
            model=self.model,
            prompt_name=self.prompt_name,
            text=self.text,
            target_text=self.target_text,
            kind=self.kind,
            layer=self.layer,
            head=self.head,
            query=self.query,
            has_states="block" in self.include,
        )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Adds the default that depends on the task."""
        if isinstance(fields, dict) and not has_target(fields.get("task")):
            kind = fields.get("kind")
            return {**fields, "kind": "encoder" if kind is None else kind}
        return fields

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if not self.text:
            refuse("missing text parameter")
        if not self.has_target:
            check_embedded([self.kind])
        return self
