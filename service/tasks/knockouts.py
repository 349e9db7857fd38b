"""Answers requests for knock-outs: computes the effect of switching off heads, edges or words.

An edge is the attention of one token to another.

Each knock-out is computed in work items of its own. A worker batches these items with each other
and with the items of other requests.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from model.inspection.query import (
    AttentionJob,
    AttentionKind,
    EdgeKnockout,
    HeadKnockout,
    InspectedConfig,
    Knockout,
    ProbabilityQuery,
    ScoreQuery,
    resolve_numbers,
    resolve_place,
    resolve_token,
)
from model.inspection.results import TokenProbabilities
from service.tasks.alignment.alignment import word_spans
from service.tasks.attention.inspector import Inspector
from service.tasks.attention.models import LoadedDirection
from service.tasks.attention.query import refusing
from service.tasks.attention.replies import KnockoutEffectBody, KnockoutResponse, NewTranslation
from service.tasks.attention.requests import HeadsQuestion, KnockoutBody, KnockoutQuestion
from service.tasks.attention.results import (
    InspectedText,
    check_num_probabilities,
    token_labels,
    with_inputs,
)
from service.tasks.context import RequestContext
from service.tasks.reranking import scores_of
from service.tasks.threads import CHARS_PER_TOKEN

GROWTH = 2
"""A new translation has at most GROWTH times as many tokens as the old one, plus MORE_TOKENS.

A model with some parts switched off may repeat a word up to the length limit of a translation.
"""
MORE_TOKENS = 8


@dataclass(slots=True)
class Draft:
    """A draft of the translation under a knock-out, which the model corrects until it is final.

    The model reads the whole draft at once. Each token is then replaced by the most probable
    token, given the draft's tokens before it. When no token changes, the draft equals the
    translation that greedy decoding would have written token by token.

    Source: Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel
    Decoding", section 3.
    """

    ids: list[int]  # EOS included
    eos_id: int
    limit: int  # of tokens; a longer first draft is kept if none of its tokens changes
    is_done: bool = False
    is_cut: bool = False  # at `limit`

    def change(self, likeliest: Sequence[int]) -> None:
        same = next(
            (i for i, ids in enumerate(zip(self.ids, likeliest, strict=True)) if ids[0] != ids[1]),
            len(self.ids),
        )
        self.is_done = same == len(self.ids)
        if self.is_done:
            return
        found = list(likeliest)
        end = found.index(self.eos_id) + 1 if self.eos_id in found else len(found)
        is_last = self.eos_id in found[: same + 1]
        self.is_done = is_last  # all tokens up to EOS are checked
        self.ids = found[:end] if self.eos_id in found else [*found, self.eos_id]
        if len(self.ids) > self.limit:
            self.ids = [*found[: self.limit - 1], self.eos_id]
            self.is_done = self.is_cut = same >= self.limit - 1


async def compare(
    inspector: Inspector, request: KnockoutBody, context: RequestContext
) -> KnockoutResponse:
    """Returns the effect of each knock-out of a request.

    Equal knock-outs are computed once. The result with nothing switched off is computed as the
    result of an empty knock-out. An empty knock-out in the request has exactly this result.
    """
    model = await inspector.choose_model(request, request.text, context)
    for question in request.knockouts:  # refuses a wrong layer or head before tokenisation
        for part in [*question.heads, *question.edges]:
            place_of(model.config, part)
    # New translations are not counted, because their number of passes is not known.
    num_chars = len(request.text) + len(request.target_text or request.text_pair or request.text)
    tokens = (num_chars // CHARS_PER_TOKEN + 1) * (1 + len(request.knockouts))
    await context.admit(inspector.backend, tokens, num_chars)
    (text,) = await inspector.read(model, request, context)
    source, target = text.source, text.target
    reply = KnockoutResponse(
        model=model.name,
        source=token_labels(source),
        source_words=word_spans(source),
        knockouts=[],
    )
    knockouts = [knockout_of(model.config, each, text) for each in request.knockouts]
    different = list(dict.fromkeys([Knockout(), *knockouts]))
    if target is None or not isinstance(model, LoadedDirection):
        jobs = [model.job(text, (ScoreQuery(),), each) for each in different]
        logits = np.array(await inspector.capture(model, jobs, context), np.float32)[:, 0]
        scores = dict(zip(different, scores_of(logits, request.raw_scores), strict=True))
        reply.score = base_score = scores[Knockout()]
        effects = {
            each: KnockoutEffectBody(score=score, total_change=score - base_score)
            for each, score in scores.items()
        }
    else:
        count, limit = len(different) * len(target.ids), inspector.settings.max_attention_values
        check_num_probabilities(count, limit, "send fewer knockouts")
        score = partial(_score, inspector, context, model, source.ids)
        found = await score([(each, target.ids) for each in different])
        reply.target = with_inputs(token_labels(target), model.start)
        reply.log_probs = base = found[0].log_probs
        effects = {
            each: effect_of(scores.log_probs, base)
            for each, scores in zip(different, found, strict=True)
        }
        if request.translate:
            translations = await _translate(model, len(source.ids), target.ids, knockouts, score)
            for each, translation in translations.items():
                effects[each].translation = translation
    reply.knockouts = [effects[each] for each in knockouts]
    return reply


def effect_of(log_probs: NDArray[np.float32], base: NDArray[np.float32]) -> KnockoutEffectBody:
    with np.errstate(invalid="ignore"):  # -inf - (-inf) is NaN, which is null in JSON
        changes = log_probs - base
    total = float(changes.sum(dtype=np.float64))
    total_change = total if np.isfinite(total) else None
    return KnockoutEffectBody(log_probs=log_probs, changes=changes, total_change=total_change)


Jobs = Iterable[tuple[Knockout, list[int]]]


async def _score(
    inspector: Inspector,
    context: RequestContext,
    model: LoadedDirection,
    source: list[int],
    jobs: Jobs,
) -> list[TokenProbabilities]:
    query = ProbabilityQuery(1, first_id=model.direction.vocabularies.first_id)
    wanted = [AttentionJob(source, target, (query,), knockout) for knockout, target in jobs]
    return [found for (found,) in await inspector.capture(model, wanted, context)]


async def _translate(
    model: LoadedDirection,
    source_tokens: int,
    target: list[int],
    knockouts: Iterable[Knockout],
    score: Callable[[Jobs], Awaitable[list[TokenProbabilities]]],
) -> dict[Knockout, NewTranslation]:
    eos_id = model.config.eos_id
    longest = model.config.max_target_tokens(source_tokens)
    limit = min(longest, GROWTH * len(target) + MORE_TOKENS)
    drafts = {each: Draft([*target[:-1], eos_id], eos_id, limit) for each in knockouts}
    while waiting := {each: draft for each, draft in drafts.items() if not draft.is_done}:
        found = await score([(each, draft.ids) for each, draft in waiting.items()])
        for draft, scores in zip(waiting.values(), found, strict=True):
            draft.change(scores.likeliest[:, 0].tolist())
    detokenize = model.direction.vocabularies.target.detokenize
    return {
        each: NewTranslation(text=detokenize(draft.ids).text, is_cut=draft.is_cut)
        for each, draft in drafts.items()
    }


@refusing()
def place_of(
    config: InspectedConfig, part: HeadsQuestion
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the layers and the heads of a part that is off, as indices from 0."""
    layers, heads = (None if numbers == "all" else numbers for numbers in (part.layers, part.heads))
    return resolve_place(config, AttentionKind(part.kind), layers, heads)


@refusing()
def knockout_of(
    config: InspectedConfig, question: KnockoutQuestion, text: InspectedText
) -> Knockout:
    """Returns a client's knock-out with all numbers as indices from 0."""
    source, lengths = text.source, text.lengths
    heads = [
        HeadKnockout(AttentionKind(each.kind), *place_of(config, each), each.uniform)
        for each in question.heads
    ]
    edges = [
        EdgeKnockout(
            AttentionKind(each.kind),
            resolve_token(AttentionKind(each.kind), each.query, lengths),
            resolve_token(AttentionKind(each.kind), each.key, lengths, is_attended=True),
            *place_of(config, each),
        )
        for each in question.edges
    ]
    tokens: list[int] = []
    if question.source_words:
        spans = word_spans(source)
        numbers = resolve_numbers(question.source_words, len(spans), "word", "the source")
        tokens = [token for number in sorted(numbers) for token in range(*spans[number])]
    return Knockout(tuple(heads), tuple(edges), tuple(tokens))
