"""Chooses the translation model and the language pair for a request about attention."""

from collections.abc import Sequence

from service.errors import InvalidRequestError, NotFoundError, UnsupportedLanguageError
from service.models.catalog import Catalog
from service.models.remote import ServedRemote
from service.models.served import Direction, ServedModel
from service.tasks.attention.requests import ModelChoice
from service.tasks.translation.translator import no_attention
from service.text.detection import LanguageDetector


async def choose_direction(
    choice: ModelChoice, texts: Sequence[str], catalog: Catalog, detector: LanguageDetector
) -> Direction:
    """Returns the model of a request, with the language pair that is translated.

    The request names the model, or the languages, or both. The source language may be `auto`.

    Args:
        choice: Model or languages of the request.
        texts: Texts of the request. If the request names no model, and its source is `auto` or
            missing, the source is detected from the first text.
        catalog: Served models.
        detector: Detects the language of a text.

    Raises:
        NotFoundError: There is no model of that name.
        UnsupportedLanguageError: A language is unknown, no model translates from the source to the
            target, or the named model of several pairs does not have this pair.
        InvalidRequestError: A language is missing, or differs from that of the named model of a
            single pair. If no model is named, the error is also raised if the languages are equal
            or need two models. A remote model also causes this error.
    """
    if choice.model is not None:
        model = catalog.models.get(catalog.named(choice.model))
        if catalog.named(choice.model) in catalog.of_type(ServedRemote):
            raise no_attention(catalog.named(choice.model))
        if model is None:
            known = ", ".join(catalog.models)
            raise NotFoundError(f"there is no model {choice.model[:64]}; there are {known}")
        return _direction_of(model, choice, catalog)
    target = catalog.language(choice.target or "")
    source = _source(choice, target, texts, catalog, detector)
    route = catalog.route(source, target)
    if not route:
        raise InvalidRequestError(
            f"Invalid request: nothing is translated from {target} to {target}; "
            "name two languages, or a model"
        )
    if len(route) > 1:
        models = " and ".join(direction.name for direction in route)
        raise InvalidRequestError(
            f"Invalid request: no single model translates from {source} to {target}; "
            f"send one request for each of {models}"
        )
    if not route[0].has_attention:
        raise no_attention(route[0].name)
    return route[0]


def _source(
    choice: ModelChoice,
    target: str,
    texts: Sequence[str],
    catalog: Catalog,
    detector: LanguageDetector,
) -> str:
    """Returns the source language of all texts.

    If the request does not name the source language, it is detected from the first text. If no
    language is detected, the first source language for the target is returned.
    """
    code = choice.source or "auto"
    if not _is_auto(code):
        return catalog.language(code)
    candidates = [code for code in catalog.sources(target) if code != target]
    if not candidates:
        raise UnsupportedLanguageError(
            f"nothing is translated to {target}; GET /languages lists all targets", target
        )
    detected = detector.detect(texts[0], candidates)  # only the beginning of a long text is read
    return detected[0].language if detected else candidates[0]


def _direction_of(model: ServedModel, choice: ModelChoice, catalog: Catalog) -> Direction:
    """Returns the model that a request names, with the language pair of the request."""
    if model.files.source:
        _check_languages(model, choice, catalog)
        return model.direction(model.files.source, model.files.target)
    source, target = choice.source or "auto", choice.target
    if target is None or _is_auto(source):
        raise InvalidRequestError(
            f"Invalid request: {model.name} has many languages; name source and target"
        )
    return model.direction(catalog.language(source), catalog.language(target))


def _check_languages(model: ServedModel, choice: ModelChoice, catalog: Catalog) -> None:
    sides = {
        "source": (choice.source, model.files.source),
        "target": (choice.target, model.files.target),
    }
    for name, (code, expected) in sides.items():
        is_any = code is None or (name == "source" and _is_auto(code))
        if code is not None and not is_any and catalog.language(code) != expected:
            raise InvalidRequestError(
                f"Invalid request: {name} {code[:35]} is not the {name} language of {model.name} "
                f"({expected}); leave {name} or model out"
            )


def _is_auto(code: str) -> bool:
    return code.strip().lower() == "auto"
