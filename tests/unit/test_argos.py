"""Packages of Argos: pulled by an index, or named as files."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from model.checkpoints.load import find_models
from service.errors import InvalidRequestError
from service.models.changes import find
from service.models.registry.argos import MAX_RATIO
from service.models.registry.cache import ModelCache, Record
from service.models.registry.download import HttpClient
from service.models.registry.errors import RegistryError
from service.models.registry.locate import locate
from service.models.registry.pull import Puller
from service.models.registry.references import parse_reference
from service.settings import Settings
from tests.ctranslate2_folders import convert, write_opennmt, write_package, write_trained
from tests.hf_files import TARGET_TEXT
from tests.registry import FakeRegistry, Fault
from tests.unit.test_ctranslate2 import their_words, words

INDEX = "/index.json"
KEPT = ["metadata.json", "model/config.json", "model/model.bin", "model/shared_vocabulary.json"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("argos")
    write_opennmt(folder / "ct2-en-de", "int8")
    write_package(folder / "en_de.argosmodel", folder / "ct2-en-de")
    return folder / "en_de.argosmodel"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "original-en-de"
    write_trained(folder)
    return folder


@pytest.mark.parametrize("quantization", [None, "int8"])
def test_trained_model_has_the_words_of_the_original(
    trained: Path, quantization: str | None, tmp_path: Path
) -> None:
    """Also those of CTranslate2 itself. The model is sure of its words, unlike random weights."""
    folder = tmp_path / "ct2-en-de"
    convert(trained, folder, quantization, ["source.spm"])
    (folder / "source.spm").rename(folder / "sentencepiece.model")
    write_package(tmp_path / "en_de.argosmodel", folder)
    (located,) = locate([str(tmp_path / "en_de.argosmodel")], ModelCache(tmp_path / "cache"), False)
    package, expected = Path(located.place), words(trained)
    assert expected[: len(TARGET_TEXT)] == TARGET_TEXT
    for dtype in ("float32", "int8"):
        assert [words(each, dtype) for each in (folder, package)] == [expected] * 2
        assert their_words(package / "model", dtype) == expected


def entry(version: str, **changes: Any) -> dict[str, Any]:
    name = f"translate-en_de-{version.replace('.', '_')}.argosmodel"
    codes = {"package_version": version, "from_code": "en", "to_code": "de", "name": name}
    return {**codes, **changes}


class Pull:
    def __init__(self, registry: FakeRegistry, folder: Path, package: Path) -> None:
        self.registry, self.cache = registry, ModelCache(folder / "cache")
        self.package = package.read_bytes()
        self.publish(entry("1.9"), entry("1.10"), entry("1.2"), entry("2.0", type="sbd"))

    def publish(self, *entries: dict[str, Any]) -> None:
        for each in entries:
            path = f"/v1/{each['name']}"
            each.setdefault("links", ["ipfs://Qm", f"{self.registry.url}{path}"])
            self.registry.files[path] = self.package
        self.registry.files[INDEX] = json.dumps(entries).encode()

    def __call__(self, text: str, **settings: Any) -> Record:
        given = {"argos_index": f"{self.registry.url}{INDEX}", **settings}
        http = HttpClient(sleep=lambda seconds: None, timeout_seconds=10)
        return Puller(self.cache, Settings.model_validate(given), http).pull(parse_reference(text))


@pytest.fixture
def pull(tmp_path: Path, package: Path) -> Iterator[Pull]:
    with FakeRegistry() as registry:
        yield Pull(registry, tmp_path, package)


def test_newest_package_is_pulled_and_unpacked(pull: Pull, package: Path) -> None:
    record = pull("argos:en-de")
    assert (record.revision, record.folder) == ("1.10", "argos/1.10/en-de")
    assert sorted(file.name for file in record.files) == [*KEPT, "sentencepiece.model"]
    assert not pull.cache.damaged(record)
    (located,) = locate(["argos:en-de"], pull.cache, False)
    (files,) = find_models(located.place)
    assert files.name == "en-de"
    assert words(Path(located.place)) == words(package.parent / "ct2-en-de")
    assert not list(pull.cache.folder(record).glob("*.argosmodel"))


def test_package_on_disk_is_not_fetched_again(pull: Pull) -> None:
    first = pull("argos:en-de")
    pull.registry.asked.clear()
    assert pull("argos:en-de") == first
    assert pull.registry.paths() == [INDEX]
    pull.publish(entry("1.11"))
    assert pull("argos:en-de").revision == "1.11"


def test_version_is_chosen(pull: Pull) -> None:
    assert pull("argos:en-de@1.2").revision == "1.2"


def test_broken_download_is_repeated(pull: Pull) -> None:
    path = "/v1/translate-en_de-1_10.argosmodel"
    pull.registry.faults[path].append(Fault(cut=1000))
    assert pull("argos:en-de").revision == "1.10"
    assert pull.registry.paths().count(path) == 2


@pytest.mark.parametrize(
    ("reference", "index", "reason"),
    [
        ("argos:en-fr", None, "no package for argos:en-fr; there are the pairs en-de"),
        ("argos:en-de@3.0", None, r"argos:en-de@3\.0; there are versions 1\.10, 1\.2, 1\.9"),
        ("argos:en-de", {}, "is not an index of packages"),
        ("argos:en-de", [entry("1.0", links=["ipfs://Q"])], "no link or no version"),
        ("argos:en-de", [entry("../..", links=["https://a"])], "no link or no version"),
    ],
)
def test_missing_package_is_named(pull: Pull, reference: str, index: Any, reason: str) -> None:
    if index is not None:
        pull.registry.files[INDEX] = json.dumps(index).encode()
    with pytest.raises(RegistryError, match=reason):
        pull(reference)


def test_offline_sends_nothing(pull: Pull) -> None:
    with pytest.raises(RegistryError, match="REGARD_OFFLINE forbids it"):
        pull("argos:en-de", offline=True)
    assert not pull.registry.asked


def test_file_is_served_from_the_cache(tmp_path: Path, package: Path) -> None:
    cache = ModelCache(tmp_path / "cache")
    (located,) = locate([str(package)], cache, False)
    assert Path(located.place).is_relative_to(cache.root)
    assert words(Path(located.place)) == words(package.parent / "ct2-en-de")
    weights = Path(located.place, "model", "model.bin")
    before = weights.stat().st_mtime_ns
    assert locate([str(package)], cache, False) == [located]
    assert weights.stat().st_mtime_ns == before


def test_package_without_a_folder_is_read(tmp_path: Path, package: Path) -> None:
    path = tmp_path / "flat.argosmodel"
    write_package(path, package.parent / "ct2-en-de", prefix="")
    (located,) = locate([str(path)], ModelCache(tmp_path / "cache"), False)
    assert [files.name for files in find_models(located.place)] == ["en-de"]


def test_file_outside_the_root_is_refused(tmp_path: Path, package: Path) -> None:
    given = {"models_root": str(tmp_path), "model_cache": str(tmp_path / "cache")}
    settings = Settings.model_validate(given)
    with pytest.raises(InvalidRequestError, match="outside the folder REGARD_MODELS_ROOT"):
        find("en-de", str(package), settings)
    inside = tmp_path / "en_de.argosmodel"
    inside.write_bytes(package.read_bytes())
    assert find("en-de", str(inside), settings)[0].name == "en-de"


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/model/model.bin", bytes(10**6))
        archive.writestr("a/metadata.json", "{}")


def packed_by(method: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("metadata.json", "{}")

    return write


def without_metadata(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/model.bin", "a")


def cut(path: Path) -> None:
    packed_by(zipfile.ZIP_STORED)(path)
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (bomb, f"unpacks to over {MAX_RATIO} times its size"),
        (packed_by(zipfile.ZIP_LZMA), "packed in another way than by deflate"),
        (packed_by(zipfile.ZIP_BZIP2), "packed in another way than by deflate"),
        (without_metadata, "it has no metadata.json"),
        (cut, "cut short or damaged"),
        (lambda path: None, "does not exist"),
    ],
)
def test_bad_file_is_refused(tmp_path: Path, write: Callable[[Path], None], reason: str) -> None:
    path = tmp_path / "bad.argosmodel"
    write(path)
    with pytest.raises(RegistryError, match=reason):
        locate([str(path)], ModelCache(tmp_path / "cache"), False)
    assert not list((tmp_path / "cache").rglob("metadata.json"))


def test_files_outside_the_package_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "outside.argosmodel"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a/metadata.json", "a/../../x.model", "/etc/y.model", "a/model/../z.model"):
            archive.writestr(name, "{}")
    cache = ModelCache(tmp_path / "cache")
    (located,) = locate([str(path)], cache, False)
    assert [file.name for file in cache.root.rglob("*") if file.is_file()] == ["metadata.json"]
    assert located.place.endswith("/outside")
