"""Schemas of the requests and the responses of /attention/knockout.

A knock-out is a set of parts of the model that are switched off together.
"""

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, model_validator

from service.api.attention.response_schemas import LabelsBody, TargetLabelsBody
from service.api.attention.schemas import AttentionQuestion, Numbers, check_doubles
from service.api.request.parameters import ListOf, Parameters, not_empty, refuse
from service.tasks.attention.requests import (
    EdgeOff,
    HeadsOff,
    Kind,
    KnockoutOptions,
    KnockoutRequest,
)

MAX_PARTS = 1000
"""Largest number of entries in each of the lists `heads` and `edges` of a knock-out."""


class PartQuestion(Parameters):
    """The kind, the layers and the heads of the attention that a knock-out changes."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind = Field("cross", description="`encoder`, `decoder` or `cross`.")
    layers: Numbers = Field("all", description="Layer numbers, or `all`; -1 is the last layer.")
    heads: Numbers = Field("all", description="Head numbers, or `all`; -1 is the last head.")


class HeadsQuestion(PartQuestion):
    """Heads that are switched off."""

    def options(self) -> HeadsOff:
        """Returns the heads in the form that `service.tasks.attention` takes."""
        return HeadsOff(self.kind, self.layers, self.heads)


class EdgeQuestion(PartQuestion):
    """An edge that is switched off: one token does not attend to another."""

    query: StrictInt = Field(description="Number of the attending token; -1 is the last token.")
    key: StrictInt = Field(description="Number of the attended token; -1 is the last token.")

    def options(self) -> EdgeOff:
        """Returns the edge in the form that `service.tasks.attention` takes."""
        return EdgeOff(self.query, self.key, self.kind, self.layers, self.heads)


class KnockoutQuestion(Parameters):
    """The parts of the model that are switched off together; `{}` switches off nothing."""

    model_config = ConfigDict(extra="forbid")

    heads: ListOf[HeadsQuestion] = Field(
        [], description="Heads to switch off.", max_length=MAX_PARTS
    )
    edges: ListOf[EdgeQuestion] = Field(
        [],
        description="Edges: pairs of tokens. The token `query` does not attend to the token `key`.",
        max_length=MAX_PARTS,
    )
    source_words: Annotated[ListOf[StrictInt], BeforeValidator(check_doubles)] = Field(
        [],
        description="Numbers of source words to which no token attends. A number is an index into "
        "`source_words` of the response.",
    )

    def options(self) -> KnockoutOptions:
        """Returns the parts in the form that `service.tasks.attention` takes."""
        return KnockoutOptions(
            [each.options() for each in self.heads],
            [each.options() for each in self.edges],
            self.source_words,
        )


class KnockoutBody(AttentionQuestion):
    """The body of `POST /attention/knockout`, as JSON."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "text": "The cat sat.",
                "source": "en",
                "target": "pt",
                "knockouts": [{"source_words": [1]}],
            }
        }
    )

    text: str = Field(description="Text, read as one sequence.", json_schema_extra=not_empty)
    target_text: str | None = Field(
        None, description="Translation of the text; by default the model's own translation."
    )
    knockouts: ListOf[KnockoutQuestion] = Field(
        description="One or more knock-outs; each is computed separately from the others.",
        json_schema_extra=not_empty,
    )
    translate: bool = Field(
        False, description="Return also the model's translation under each knock-out."
    )

    def request(self) -> KnockoutRequest:
        """Returns the request in the form that `service.tasks.attention` takes."""
        return KnockoutRequest(
            source=self.source,
            target=self.target,
            model=self.model,
            text=self.text,
            target_text=self.target_text,
            knockouts=[each.options() for each in self.knockouts],
            translates=self.translate,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.has_target:
            refuse("a knockout is only for translations; leave task out")
        if not self.text:
            refuse("missing text parameter")
        if not self.knockouts:
            refuse("knockouts parameter is an empty list; send one or more, such as [{}]")
        return self


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
    source: LabelsBody
    source_words: list[tuple[int, int]] = Field(
        description="[first, end) of each source word, in tokens."
    )
    target: TargetLabelsBody
    log_probs: list[float | None] = Field(
        description="Log-probability of each target token if nothing is switched off."
    )
    knockouts: list[KnockoutEffectBody] = Field(description="In the order of the request.")
