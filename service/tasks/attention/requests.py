"""Defines requests for attention, independent of HTTP.

The schemas of `/attention` import this module. Schemas must be imported fast, so this module does
not import numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
Level = Literal["token", "word"]
Reduce = Literal["none", "mean_heads", "max_heads", "mean_layers_heads", "rollout"]
Norm = Literal["weights", "value_norms", "alti", "value_zeroing"]
Numbers = Literal["all"] | Sequence[int]
"""Indices of layers or heads. A negative index counts from the end."""


@dataclass(frozen=True, slots=True)
class View:
    """Selects the form in which a client gets attention.

    Attributes:
        level: Whether attention is between tokens or between words.
        top_k: Number of values to keep in each row; the largest are kept. None keeps all.
        decimals: Number of decimals to which values are rounded; None leaves them unrounded.
    """

    level: Level = "token"
    top_k: int | None = None
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class ProbabilityOptions:
    """Selects the probabilities of target tokens that a client gets.

    Attributes:
        top_k: Number of likeliest tokens at each position.
        tokens: Words or vocabulary ids. A word stands for its first token. At each position, the
            result has the log-probability of each of these tokens, and its rank among the tokens
            that the decoder may choose.
    """

    top_k: int = 5
    tokens: Sequence[str | int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """Names the model of a request, by its name or by its languages.

    Attributes:
        source: Language code, `auto`, or None.
        target: Language code, or None.
        model: Served name, or None.
        prompt_name: Name of the prompt in front of a text to embed; None for the model's default.
    """

    source: str | None = None
    target: str | None = None
    model: str | None = None
    prompt_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionRequest(ModelChoice):
    """Asks for attention matrices of one or more texts.

    Attributes:
        texts: The texts. With `is_split`, each sentence of a text becomes one sequence.
            Otherwise, each text becomes one sequence.
        target_texts: Translations, one for each text. None stands for the model's own translation.
        is_split: Whether texts are split into sentences.
        kinds: Kinds of attention.
        layers: Indices of the layers.
        heads: Indices of the heads.
        reduce: Reduction over heads and layers.
        norm: Values that are returned: weights, weights times value norms, or contributions of the
            attended tokens.
        needs_equal_layers: Whether each kind must have the same number of layers, as the BertViz
            format requires.
        view: Form in which the matrices are returned.
        probabilities: Selects probabilities of target tokens, which are returned too. None selects
            no probabilities.
        has_detachment: Whether a score is returned too: how far each translation is detached from
            its source (`service.tasks.alignment.detachment`).
        alignment_layer: Layer whose cross-attention aligns words; None for the model's default.
        alignment_head: Head that aligns words, or `mean`; None for the model's default.
        alignment_shift: The token to which the attention of a decode step belongs. 0 is the token
            that the step predicts, and 1 the token that the step reads. None is the model's
            default.
    """

    texts: Sequence[str]
    target_texts: Sequence[str | None] | None = None
    is_split: bool = False
    kinds: Sequence[Kind] = ("cross",)
    layers: Numbers = (-1,)
    heads: Numbers = "all"
    reduce: Reduce = "mean_heads"
    norm: Norm = "weights"
    needs_equal_layers: bool = False
    view: View = View()
    probabilities: ProbabilityOptions | None = None
    has_detachment: bool = False
    alignment_layer: int | None = None
    alignment_head: int | Literal["mean"] | None = None
    alignment_shift: int | None = None


@dataclass(frozen=True, slots=True)
class HeadsOff:
    """Heads that are switched off in some layers.

    Attributes:
        kind: Kind of attention.
        layers: Indices of the layers. Negative indices count from the end, here and below.
        heads: Indices of the heads.
    """

    kind: Kind = "cross"
    layers: Numbers = "all"
    heads: Numbers = "all"


@dataclass(frozen=True, slots=True)
class EdgeOff:
    """An edge that is switched off: one token does not attend to another.

    Attributes:
        query: Index of the attending token.
        key: Index of the attended token.
        kind: Kind of attention.
        layers: Indices of the layers.
        heads: Indices of the heads.
    """

    query: int
    key: int
    kind: Kind = "cross"
    layers: Numbers = "all"
    heads: Numbers = "all"


@dataclass(frozen=True, slots=True)
class KnockoutOptions:
    """The parts of a model that a client switches off together.

    Attributes:
        heads: Heads.
        edges: Edges between tokens.
        source_words: Indices of source words to which no token attends.
    """

    heads: Sequence[HeadsOff] = ()
    edges: Sequence[EdgeOff] = ()
    source_words: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnockoutRequest(ModelChoice):
    """Asks how a translation changes if parts of the model are switched off.

    Attributes:
        text: One sequence.
        target_text: Its translation; None for the model's own translation.
        knockouts: Knock-outs. The model computes each of them separately from the others.
        translates: Whether the model also translates the text anew under each knock-out.
    """

    text: str
    target_text: str | None = None
    knockouts: Sequence[KnockoutOptions] = ()
    translates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest(ModelChoice):
    """Asks for the attention of one token in one head, with all intermediate values.

    Attributes:
        text: One sequence.
        target_text: Its translation; None for the model's own translation.
        kind: Kind of attention.
        layer: Index of the layer. Negative indices count from the end, here and below.
        head: Index of the head.
        query: Index of the token whose attention is computed. It is a source token for the encoder,
            otherwise a target token.
        has_states: Whether the vectors of the token, from the input of the layer to its output, are
            returned too.
    """

    text: str
    target_text: str | None = None
    kind: Kind = "cross"
    layer: int = -1
    head: int = 0
    query: int = 0
    has_states: bool = False
