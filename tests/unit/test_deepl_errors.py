"""DeepL's dialect: the shape of its errors, and its language codes."""

import json

import pytest

from service.api.deepl.errors import DEEPL_ERRORS, STATUSES, DeepLErrorBody, deepl_shape
from service.api.deepl.languages import source_code, source_codes, target_codes
from service.api.middleware import error_response
from service.errors import (
    KINDS,
    InvalidKeyError,
    InvalidRequestError,
    MissingKeyError,
    QuotaExceededError,
    RateLimitedError,
    ServiceError,
)
from service.tasks.context import RequestContext
from tests.unit.test_catalog import catalog
from tests.unit.test_openai_errors import ERRORS

KEYS = (MissingKeyError, InvalidKeyError)
OWN_STATUS = (*KEYS, QuotaExceededError, RateLimitedError)
OTHERS = [e for e, *_ in ERRORS if e.param is None and not isinstance(e, OWN_STATUS)]


@pytest.mark.parametrize("error", OTHERS)
def test_error_without_a_parameter_has_its_own_message(error: ServiceError) -> None:
    status, body = deepl_shape(error, RequestContext("id"))
    assert (status, body) == (KINDS[type(error)].status, {"message": "m"})
    DeepLErrorBody.model_validate(body)


@pytest.mark.parametrize("kind", KEYS)
def test_missing_key_and_wrong_key_get_the_same_status_and_message(
    kind: type[ServiceError],
) -> None:
    """DeepL's clients take 403 alone for a fault of the key."""
    status, body = deepl_shape(kind("m", details="d"), RequestContext("id"))
    assert (status, body["message"]) == (403, "Authorization failure, check auth_key")
    assert body["detail"]


def test_details_are_the_detail() -> None:
    error = InvalidRequestError("m", details="d")
    assert deepl_shape(error, RequestContext("id")) == (400, {"message": "m", "detail": "d"})
    error.param = "text"
    expected = {"message": "Value for 'text' not supported.", "detail": "m; d"}
    assert deepl_shape(error, RequestContext("id")) == (400, expected)


def test_response_has_the_time_after_which_to_try_again() -> None:
    for error, *_ in ERRORS:
        response = error_response(error, RequestContext("id"), deepl_shape)
        assert json.loads(bytes(response.body)).keys() <= {"message", "detail"}
        given = response.headers.get("retry-after")
        assert given == (error.retry_after_seconds and str(error.retry_after_seconds))


def test_documented_statuses_exist() -> None:
    statuses = {STATUSES.get(kind, KINDS[kind].status) for kind in KINDS}
    assert {*DEEPL_ERRORS} <= statuses


@pytest.mark.parametrize(
    ("models", "sources", "targets"),
    [
        (["en-pt", "pt-en"], ["EN", "PT"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["en-de"], ["EN"], ["DE"]),
        (["en-pt-BR"], ["EN"], ["PT-BR"]),
        (["m: en pt pt-BR"], ["EN", "PT", "PT-BR"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["m: de zh-Hans"], ["DE", "ZH"], ["DE", "ZH-HANS"]),
        (["m: de zh-Hans zh-Hant"], ["DE", "ZH", "ZH-HANT"], ["DE", "ZH-HANS", "ZH-HANT"]),
        ([], [], []),
    ],
)
def test_codes_are_those_of_deepl(
    models: list[str], sources: list[str], targets: list[str]
) -> None:
    found = catalog(*models)
    assert source_codes(found) == sources
    assert target_codes(found) == targets
    for code in (*sources, *targets):
        found.language(code)


def test_code_of_a_source_leads_back_to_it() -> None:
    found = catalog("m: de en pt pt-BR sr-Cyrl sr-Latn zh-Hans zh-Hant nb fil")
    for language in found.languages:
        assert found.language(source_code(language, found)) == language
