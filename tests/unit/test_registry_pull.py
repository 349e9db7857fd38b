"""Whole models, pulled from a server with the registries' shapes into a cache."""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from model.checkpoints.families.sentence_transformers import find_embedding_models
from model.checkpoints.load import find_models
from service.models.registry.cache import ModelCache, Record
from service.models.registry.download import HttpClient
from service.models.registry.errors import RegistryError
from service.models.registry.files import choose_files
from service.models.registry.pull import Puller
from service.models.registry.references import parse_reference
from service.settings import Settings
from tests.hf_files import write_marian
from tests.registry import COMMIT, HEAD, FakeRegistry, Fault, read_folder, sha256, use_hub_cache
from tests.tiny_text import write_model

PAIR = "firefox:en-de"
STUDENT = {
    "model.ende.intgemm.alphas.bin": b"weights " * 9000,
    "vocab.ende.spm": b"pieces " * 500,
    "lex.50.50.ende.s2t.bin": b"words " * 700,
}
WEIGHTS, VOCAB, SHORTLIST = STUDENT
NAME = "Helsinki-NLP/opus-mt-en-de"
OPUS = f"hf:{NAME}"
INFO = f"/api/models/{NAME}/revision/main"
RESOLVED = f"/{NAME}/resolve/{COMMIT}"
OPUS_WEIGHTS = f"{RESOLVED}/model.safetensors"
OTHER_COMMIT = COMMIT[::-1]


class Pull:
    """Pulls from the one registry into the one cache.

    Attributes:
        hub_cache: Folder of Hugging Face's cache.
        opus: Files of the repository OPUS that a model needs.
    """

    def __init__(self, registry: FakeRegistry, folder: Path) -> None:
        self.registry, self.cache = registry, ModelCache(folder / "cache")
        self.hub_cache = folder / "hub"
        self.opus: dict[str, bytes] = {}

    def __call__(
        self, text: str, pins: Mapping[str, str] | None = None, is_offline: bool = False
    ) -> Record:
        url = self.registry.url
        given = {"hf_endpoint": url, "firefox_registry": url, "offline": is_offline}
        http = HttpClient(sleep=lambda seconds: None, timeout_seconds=10)
        entry = replace(parse_reference(text), pins=pins or {})
        return Puller(self.cache, Settings.model_validate(given), http).pull(entry)

    def files(self, record: Record) -> dict[str, bytes]:
        """What lies in a model's folder."""
        return read_folder(self.cache.folder(record))


@pytest.fixture
def pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pull]:
    use_hub_cache(monkeypatch, tmp_path / "hub")
    with FakeRegistry() as registry:
        yield Pull(registry, tmp_path)


class TestFirefox:
    def test_pair_is_pulled_unpacked(self, pull: Pull) -> None:
        pull.registry.publish_pair("en-de", STUDENT)
        record = pull(PAIR)
        assert pull.files(record) == STUDENT
        assert record.revision == sha256(STUDENT[WEIGHTS])[:12]
        assert {f.name: (f.size, f.sha256) for f in record.files} == {
            name: (len(content), sha256(content)) for name, content in STUDENT.items()
        }
        (found,) = find_models(str(pull.cache.folder(record)))
        assert (found.name, found.revision) == ("en-de", record.revision)

    @pytest.mark.parametrize(
        ("reference", "architecture"),
        [(PAIR, "base-memory"), (f"{PAIR}@tiny", "tiny"), (f"{PAIR}@base", "base")],
    )
    def test_released_model_goes_before_a_larger_one_that_is_not(
        self, pull: Pull, reference: str, architecture: str
    ) -> None:
        published = [
            ("base", "Nightly"),
            ("tiny", "Release Android"),
            ("base-memory", "Release Desktop"),
            ("huge", None),
        ]
        for kind, status in published:
            files = {**STUDENT, WEIGHTS: kind.encode() * 99}
            pull.registry.publish_pair("en-de", files, status, architecture=kind)
        assert pull.files(pull(reference))[WEIGHTS] == architecture.encode() * 99

    def test_pair_that_is_not_published_is_told_with_those_that_are(self, pull: Pull) -> None:
        pull.registry.publish_pair("en-de", STUDENT)
        with pytest.raises(RegistryError, match=r"no model for en-xx; from en there are en-de"):
            pull("firefox:en-xx")
        with pytest.raises(RegistryError, match="none from xx"):
            pull("firefox:xx-en")
        with pytest.raises(RegistryError, match="no architecture big, only tiny"):
            pull(f"{PAIR}@big")

    @pytest.mark.parametrize(
        ("index", "words"),
        [
            (b"{", "is not JSON"),
            (b"[]", "is not a registry"),
            (b'{"models": {"en-de": ["x"]}}', "is not a registry"),
            (b'{"models": {"en-de": [{}]}}', "is incomplete: KeyError\\('files'\\)"),
            (b'{"models": {"en-de": [{"files": {"model": {}}}]}}', "'model and vocab'"),
        ],
    )
    def test_registry_of_another_shape_is_told(self, pull: Pull, index: bytes, words: str) -> None:
        pull.registry.files["/db/models.json"] = index
        with pytest.raises(RegistryError, match=words):
            pull(PAIR)

    @pytest.mark.parametrize("path", ["models/../../x.py.gz", "run.sh", "model.a/../../b.bin.gz"])
    def test_file_that_is_none_of_a_models_is_not_fetched(self, pull: Pull, path: str) -> None:
        entry = pull.registry.publish_pair("en-de", STUDENT)
        entry["files"]["vocab"]["path"] = path
        pull.registry.write_index({"en-de": [entry]})
        with pytest.raises(RegistryError, match="is not a file of a model"):
            pull(PAIR)
        assert pull.registry.paths() == ["/db/models.json"]

    @pytest.mark.parametrize("value", ["../../../..", "0" * 63, 7])
    def test_sum_that_is_none_does_not_name_a_folder(self, pull: Pull, value: object) -> None:
        entry = pull.registry.publish_pair("en-de", STUDENT)
        entry["files"]["model"]["uncompressedHash"] = value
        pull.registry.write_index({"en-de": [entry]})
        with pytest.raises(RegistryError, match="is not a sha256 sum"):
            pull(PAIR)

    def test_damage_to_a_file_without_a_published_sum_is_seen(self, pull: Pull) -> None:
        """Its sum is that of its first pull; when it is pulled again, it is mended."""
        pull.registry.publish_pair("en-de", STUDENT)
        record = pull(PAIR)
        path = pull.cache.folder(record) / VOCAB
        path.write_bytes(path.read_bytes().replace(b"p", b"q", 1))
        (fault,) = pull.cache.damaged(record)
        assert str(path) in fault
        assert "damaged" in fault
        assert pull.files(pull(PAIR)) == STUDENT


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("hub") / "opus-mt-en-de"
    write_marian(folder)
    return read_folder(folder)


class TestHub:
    @pytest.fixture(autouse=True)
    def _published(self, opus: dict[str, bytes], pull: Pull) -> None:
        """A repository with more in it than a model needs."""
        files = pull.opus = dict(opus)
        unneeded = ["tf_model.h5", "rust_model.ot", "pytorch_model.bin", "modeling_marian.py"]
        more = dict.fromkeys([*unneeded, "onnx/model.onnx", "README.md"], b"not needed" * 300)
        pull.registry.publish_repository(NAME, files | more)

    def test_needed_files_are_pulled_and_no_others(self, pull: Pull) -> None:
        record = pull(OPUS)
        assert pull.files(record) == pull.opus
        assert record.revision == COMMIT
        (found,) = find_models(str(pull.cache.folder(record)))
        assert found.name == "en-de"

    def test_embedding_model_is_pulled_with_its_modules(self, pull: Pull, tmp_path: Path) -> None:
        write_model(tmp_path / "tiny-texts", ["Transformer", "Pooling", "Dense"])
        files = read_folder(tmp_path / "tiny-texts")
        pull.registry.publish_repository("someone/tiny-texts", files, revision="v1/2")
        record = pull("hf:someone/tiny-texts@v1/2")
        assert pull.files(record) == files
        (found,) = find_embedding_models(str(pull.cache.folder(record)))
        assert found.name == "tiny-texts"

    def test_branch_that_has_moved_is_pulled_anew(self, pull: Pull) -> None:
        old = pull(OPUS)
        changed = pull.opus | {"config.json": pull.opus["config.json"] + b"\n"}
        pull.registry.publish_repository(NAME, changed, commit=OTHER_COMMIT)
        new = pull(OPUS)
        assert (old.revision, new.revision) == (COMMIT, OTHER_COMMIT)
        pinned = pull.cache.record(parse_reference(f"{OPUS}@{COMMIT}"))
        assert pinned is not None
        assert (pinned.folder, pinned.files) == (old.folder, old.files)
        assert pull.files(new) == changed
        assert pull.files(old) == pull.opus
        assert pull.cache.record(parse_reference(OPUS)) == new

    def test_version_that_is_served_stays_while_the_next_is_incomplete(self, pull: Pull) -> None:
        old = pull(OPUS)
        pull.registry.publish_repository(NAME, pull.opus, commit=OTHER_COMMIT)
        pull.registry.faults[f"{HEAD}/{NAME}/resolve/{OTHER_COMMIT}/vocab.json"] = [
            Fault(status=404)
        ]
        with pytest.raises(RegistryError, match=r"vocab\.json"):
            pull(OPUS)
        assert pull.cache.record(parse_reference(OPUS)) == old
        assert pull.cache.damaged(old) == []

    def test_commit_that_a_branch_was_is_there_already(self, pull: Pull) -> None:
        record = pull(OPUS)
        pull.registry.asked.clear()
        again = pull(f"{OPUS}@{COMMIT}")
        assert (again.folder, again.files) == (record.folder, record.files)
        assert pull.registry.asked == []
        assert pull.cache.record(parse_reference(f"{OPUS}@{OTHER_COMMIT}")) is None
        assert pull.cache.record(parse_reference(f"hf:other/name@{COMMIT}")) is None

    def test_damaged_file_is_fetched_again(self, pull: Pull) -> None:
        record = pull(OPUS)
        path = pull.cache.folder(record) / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        pull(OPUS)
        assert pull.files(record) == pull.opus

    def test_damaged_file_that_cannot_be_fetched_again_does_not_count_as_there(
        self, pull: Pull
    ) -> None:
        record = pull(OPUS)
        path = pull.cache.folder(record) / "vocab.json"
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        remote = f"{RESOLVED}/vocab.json"
        pull.registry.faults[remote] = [Fault(status=403)]
        with pytest.raises(RegistryError):
            pull(OPUS)
        assert pull.cache.missing(record) == [f"{path} does not exist"]

    def test_files_lie_in_the_cache_of_hugging_face_once(self, pull: Pull) -> None:
        """A second name for the same content: removing one cache leaves the other complete."""
        folder = pull.cache.folder(pull(OPUS))
        snapshot = pull.hub_cache / "models--Helsinki-NLP--opus-mt-en-de" / "snapshots" / COMMIT
        assert read_folder(snapshot) == pull.opus
        for name in pull.opus:
            assert (snapshot / name).samefile(folder / name)
            assert not (folder / name).is_symlink()

    def test_file_on_another_disk_is_linked_by_its_path(
        self, pull: Pull, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: object) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", refused)
        record = pull(OPUS)
        assert pull.files(record) == pull.opus
        assert (pull.cache.folder(record) / "config.json").is_symlink()

    def test_files_that_another_program_fetched_are_used(self, pull: Pull) -> None:
        for file in (*pull.opus, "README.md", "modeling_marian.py"):
            hf_hub_download(NAME, file, revision=COMMIT, endpoint=pull.registry.url)
        pull.registry.asked.clear()
        assert pull.files(pull(OPUS)) == pull.opus
        assert pull.registry.paths() == [INFO]

    @pytest.mark.parametrize("setting", ["REGARD_OFFLINE", "HF_HUB_OFFLINE"])
    def test_offline_only_the_cache_of_hugging_face_is_read(
        self, pull: Pull, monkeypatch: pytest.MonkeyPatch, setting: str
    ) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", setting == "HF_HUB_OFFLINE")
        is_offline = setting == "REGARD_OFFLINE"
        with pytest.raises(RegistryError, match=f"{OPUS} has to be fetched, and .*{setting}"):
            pull(OPUS, is_offline=is_offline)
        assert pull.registry.asked == []
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for file in (*pull.opus, "README.md"):
            hf_hub_download(NAME, file, endpoint=pull.registry.url)
        pull.registry.asked.clear()
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", setting == "HF_HUB_OFFLINE")
        record = pull(OPUS, is_offline=is_offline)
        assert (pull.files(record), record.revision) == (pull.opus, COMMIT)
        assert pull.registry.asked == []

    def test_offline_a_damaged_file_is_refused(self, pull: Pull) -> None:
        for file in pull.opus:
            path = hf_hub_download(NAME, file, endpoint=pull.registry.url)
        Path(path).write_bytes(b"damaged")
        pull.registry.asked.clear()
        with pytest.raises(RegistryError, match="cannot be fetched"):
            pull(OPUS, is_offline=True)
        assert pull.registry.asked == []

    def test_model_of_an_earlier_version_is_not_fetched_again(self, pull: Pull) -> None:
        """It lies in the cache of this package alone."""
        pull(OPUS)
        shutil.rmtree(pull.hub_cache)
        pull.registry.asked.clear()
        assert pull.files(pull(OPUS)) == pull.opus
        assert pull.registry.paths() == [INFO]
        assert not pull.hub_cache.exists()

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_transient_failure_is_tried_again(self, pull: Pull, status: int) -> None:
        for path in (INFO, f"{HEAD}{OPUS_WEIGHTS}", OPUS_WEIGHTS):
            pull.registry.faults[path] = [Fault(status=status)] * 2
        assert pull.files(pull(OPUS)) == pull.opus

    @pytest.mark.parametrize("prefix", ["", HEAD], ids=["content", "metadata"])
    def test_failure_that_lasts_is_reported(self, pull: Pull, prefix: str) -> None:
        pull.registry.faults[prefix + OPUS_WEIGHTS] = [Fault(status=500)] * 20
        with pytest.raises(RegistryError, match=r"model\.safetensors failed .* times: .* 500"):
            pull(OPUS)

    def test_wrong_sum_is_reported_and_nothing_of_the_file_is_left(self, pull: Pull) -> None:
        pull.registry.files[OPUS_WEIGHTS] = pull.opus["model.safetensors"][:-1] + b"!"
        with pytest.raises(RegistryError, match=r"model\.safetensors: .* sha256 sum .*, not"):
            pull(OPUS)
        assert sha256(pull.registry.files[OPUS_WEIGHTS]) not in map(
            sha256, read_folder(pull.hub_cache.parent).values()
        )

    def test_file_that_is_cut_short_at_its_source_is_reported(self, pull: Pull) -> None:
        pull.registry.files[OPUS_WEIGHTS] = pull.opus["model.safetensors"][:-1]
        with pytest.raises(RegistryError, match=r"model\.safetensors is damaged"):
            pull(OPUS)

    def test_full_disk_is_reported_with_the_setting(
        self, pull: Pull, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("huggingface_hub.file_download.http_get", full)
        with pytest.raises(RegistryError, match="the disk is full: .* or set HF_HOME or HF_HUB"):
            pull(OPUS)

    def test_model_that_does_not_fit_is_not_begun(self, pull: Pull) -> None:
        answer = json.loads(pull.registry.files[INFO])
        for sibling in answer["siblings"]:
            if "lfs" in sibling:
                sibling["lfs"]["size"] = 1 << 60
        pull.registry.files[INFO] = json.dumps(answer).encode()
        with pytest.raises(RegistryError, match="bytes are needed .* HF_HOME or HF_HUB_CACHE"):
            pull(OPUS)
        assert pull.registry.paths() == [INFO]

    def test_cache_that_cannot_be_written_is_reported(self, pull: Pull) -> None:
        pull.hub_cache.write_text("a file")
        with pytest.raises(RegistryError, match="cannot be written: .*set HF_HOME or HF_HUB_CACHE"):
            pull(OPUS)

    def test_repository_without_weights_that_can_be_read_is_refused(self, pull: Pull) -> None:
        pull.registry.publish_repository("a/b", {"config.json": b"{}", "tf_model.h5": b"x"})
        with pytest.raises(
            RegistryError, match=r"hf:a/b has no supported weights.*model\.safetensors"
        ):
            pull("hf:a/b")

    @pytest.mark.parametrize(
        "answer",
        [
            b"[]",
            b'{"sha": 3, "siblings": []}',
            b'{"sha": "..", "siblings": []}',
            b"{}",
            b'{"sha": "%s", "siblings": [{"rfilename": "model.safetensors", "lfs": [1]}]}'
            % COMMIT.encode(),
        ],
    )
    def test_answer_of_another_shape_is_told(self, pull: Pull, answer: bytes) -> None:
        pull.registry.files["/api/models/a/b/revision/main"] = answer
        with pytest.raises(RegistryError, match="/api/models/a/b/revision/main"):
            pull("hf:a/b")

    def test_repository_that_is_not_there_is_told(self, pull: Pull) -> None:
        with pytest.raises(RegistryError, match=r"models/a/b/revision/main does not exist"):
            pull("hf:a/b")

    def test_token_goes_to_the_registry_and_never_along_to_another_host(
        self, pull: Pull, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pull.registry.files["/cdn/weights"] = pull.opus["model.safetensors"]
        pull.registry.moved[OPUS_WEIGHTS] = (
            f"{pull.registry.other_url}/cdn/weights?signature=secret"
        )
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        pull(OPUS)
        sent = {asked.path: asked.headers.get("Authorization") for asked in pull.registry.asked}
        assert sent.pop("/cdn/weights") is None
        assert set(sent.values()) == {"Bearer hf_secret"}

    def test_token_follows_a_repository_that_was_renamed(
        self, pull: Pull, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pull.registry.moved["/api/models/old/name/revision/main"] = INFO
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        with pytest.raises(RegistryError, match="/old/name/resolve"):
            pull("hf:old/name")
        asked = [each for each in pull.registry.asked if each.path == INFO]
        assert [each.headers.get("Authorization") for each in asked] == ["Bearer hf_secret"]

    def test_token_is_in_no_message(self, pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        pull.registry.faults["/api/models/a/b/revision/main"] = [Fault(status=401)]
        with pytest.raises(RegistryError, match="set HF_TOKEN") as told:
            pull("hf:a/b")
        assert "hf_secret" not in str(told.value)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ("model.safetensors pytorch_model.bin config.json", "config.json model.safetensors"),
        ("pytorch_model.bin config.json x.py", "config.json pytorch_model.bin"),
        (
            "model.safetensors sentence_camembert_config.json",
            "model.safetensors sentence_camembert_config.json",
        ),
        (
            "model.safetensors.index.json model-00001-of-00002.safetensors "
            "model-00002-of-00002.safetensors pytorch_model.bin "
            "model.fp16-00001-of-00001.safetensors",
            "model-00001-of-00002.safetensors model-00002-of-00002.safetensors "
            "model.safetensors.index.json",
        ),
        (
            "pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin flax_model.msgpack",
            "pytorch_model-00001-of-00001.bin pytorch_model.bin.index.json",
        ),
        ("onnx/model.safetensors config.json", ""),
        (
            "model.bin shared_vocabulary.json config.json source.spm README.md",
            "config.json model.bin shared_vocabulary.json source.spm",
        ),
        (
            "modules.json 0_StaticEmbedding/model.safetensors 0_StaticEmbedding/tokenizer.json",
            "0_StaticEmbedding/model.safetensors 0_StaticEmbedding/tokenizer.json modules.json",
        ),
        (
            "2_Router/router_config.json 2_Router/query_0_Dense/model.safetensors config.json",
            "2_Router/query_0_Dense/model.safetensors 2_Router/router_config.json config.json",
        ),
        (
            "model.safetensors 2_Dense/pytorch_model.bin 2_Dense/config.json a/b/config.json "
            "openvino/config.json ../config.json /config.json",
            "2_Dense/config.json 2_Dense/pytorch_model.bin model.safetensors",
        ),
    ],
)
def test_files_of_a_model_are_told_from_the_rest(present: str, expected: str) -> None:
    assert choose_files(present.split()) == expected.split()


class TestPins:
    @pytest.fixture(autouse=True)
    def _published(self, pull: Pull) -> None:
        pull.registry.publish_pair("en-de", STUDENT)

    def test_pinned_sum_that_is_not_the_published_one_is_refused_before_anything_is_fetched(
        self, pull: Pull
    ) -> None:
        with pytest.raises(RegistryError, match=f"{WEIGHTS} is published .* but 00.* is pinned"):
            pull(PAIR, {WEIGHTS: "0" * 64})
        assert pull.registry.paths() == ["/db/models.json"]

    def test_flipped_byte_under_a_pinned_sum_is_refused(self, pull: Pull) -> None:
        """Of a vocabulary, for which the registry publishes none."""
        flipped = STUDENT | {VOCAB: STUDENT[VOCAB].replace(b"p", b"q", 1)}
        pull.registry.publish_pair("en-de", flipped)
        with pytest.raises(RegistryError, match=f"{VOCAB}: .* not {sha256(STUDENT[VOCAB])}"):
            pull(PAIR, {VOCAB: sha256(STUDENT[VOCAB])})

    def test_what_is_pinned_as_a_whole_is_not_asked_for_again(self, pull: Pull) -> None:
        """Mozilla publishes a newer model; who has pinned the old one keeps it."""
        pull(PAIR)
        pull.registry.files.clear()
        pull.registry.publish_pair("en-de", {**STUDENT, WEIGHTS: b"newer"})
        pins = {name: sha256(content) for name, content in STUDENT.items()}
        pull.registry.asked.clear()
        assert pull.files(pull(PAIR, pins)) == STUDENT
        assert pull.registry.asked == []
        del pins[VOCAB]
        with pytest.raises(RegistryError, match="is published"):
            pull(PAIR, pins)

    def test_pin_of_a_file_that_there_is_not_is_told(self, pull: Pull) -> None:
        with pytest.raises(RegistryError, match=r"the model has no file vocab\.bin; it has model"):
            pull(PAIR, {"vocab.bin": "0" * 64})


def test_interrupted_pull_names_the_missing_files_and_continues(pull: Pull) -> None:
    pull.registry.publish_pair("en-de", STUDENT)
    path = "/models/en-de/tiny/exported/" + SHORTLIST + ".gz"
    pull.registry.faults[path] = [Fault(cut=10), *[Fault(status=503)] * 4]
    with pytest.raises(RegistryError):
        pull(PAIR)
    record = pull.cache.record(parse_reference(PAIR))
    assert record is not None
    folder = pull.cache.folder(record)
    assert pull.cache.missing(record) == [f"{folder / SHORTLIST} does not exist"]
    pull.registry.asked.clear()
    assert pull.files(pull(PAIR)) == STUDENT
    assert pull.registry.paths() == ["/db/models.json", path]


def test_model_that_does_not_fit_is_not_begun(pull: Pull) -> None:
    entry = pull.registry.publish_pair("en-de", STUDENT)
    entry["files"]["model"]["uncompressedSize"] = 1 << 60
    pull.registry.write_index({"en-de": [entry]})
    with pytest.raises(RegistryError, match=f"{1 << 60} bytes are needed"):
        pull(PAIR)
    assert pull.registry.paths() == ["/db/models.json"]


def test_offline_nothing_is_requested(pull: Pull) -> None:
    pull.registry.publish_pair("en-de", STUDENT)
    with pytest.raises(RegistryError, match="firefox:en-de has to be fetched, and REGARD_OFFLINE"):
        pull(PAIR, is_offline=True)
    pull(PAIR)
    pull.registry.asked.clear()
    assert pull.files(pull(PAIR, is_offline=True)) == STUDENT
    assert pull.registry.asked == []


def test_whole_cache_may_be_moved(pull: Pull, tmp_path: Path) -> None:
    pull.registry.publish_pair("en-de", STUDENT)
    pull(PAIR)
    pull.cache.root.rename(tmp_path / "elsewhere")
    moved = ModelCache(tmp_path / "elsewhere")
    record = moved.record(parse_reference(PAIR))
    assert record is not None
    assert moved.damaged(record) == []


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "../x"},
        {"folder": "/x"},
        {"files": [{"name": "../x", "size": 1, "sha256": None}]},
        {"files": [{"name": "x", "size": "1", "sha256": None}]},
        {"files": 3},
    ],
)
def test_damaged_record_is_told(pull: Pull, change: dict[str, Any]) -> None:
    pull.registry.publish_pair("en-de", STUDENT)
    pull(PAIR)
    (path,) = (pull.cache.root / "references").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(
        RegistryError, match=r"references/firefox%3Aen-de\.json is damaged .* delete"
    ):
        pull(PAIR)
