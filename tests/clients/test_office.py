"""Documents that other people's libraries and LibreOffice write are translated, and open again."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from lxml import etree

from service.documents.formats import read_document
from tests.archives import upper
from tests.clients.conftest import PYTHON

LIMIT_SECONDS = 120
SCRIPT = Path(__file__).with_name("office_files.py")
FILES = (
    *("word.docx", "slides.pptx", "prices.xlsx", "stock.xlsx"),
    *("text.odt", "goods.ods", "talk.odp", "book.epub"),
)
# The files that LibreOffice writes anew, in other formats, before they are translated.
REWRITTEN = {
    **{"word.docx": "odt", "slides.pptx": "odp", "prices.xlsx": "ods"},
    **{"text.odt": "docx", "talk.odp": "pptx", "goods.ods": "xlsx"},
}
# The formats of text into which LibreOffice converts the translated files.
TEXT_FORMATS = {"fodt": (".docx", ".odt"), "fods": (".xlsx", ".ods"), "fodp": (".pptx", ".odp")}

# The texts that stay: a deletion, prompts of placeholders, headers of tables, texts in formulas,
# results of formulas, ranges of charts, and LibreOffice's own footer.
RANGES = ("Prices.C1:Prices.C1", "Prices.A2:Prices.A4", "Prices.C2:Prices.C4")
REMAINING = {
    "target/word.docx": ("badly",),
    "target/slides.pptx": (
        *("Click to edit Master title style", "Click to edit Master text styles", "<number>"),
        *("Second level", "Third level", "Fourth level", "Fifth level"),
    ),
    "target/prices.xlsx": ("Plant", "State of it", "Price", "Open", "Closed", "Yes", *RANGES),
    "target/stock.xlsx": (
        *("Kind of", "plant", "State", "Price & cost", "Half the price", "Total", "Seen"),
    ),
    "target/text.odt": (),
    "target/goods.ods": ("Open", "Page"),
    "target/talk.odp": (),
    "rewritten/word.odt": ("badly",),
    "rewritten/slides.odp": ("<number>",),
    "rewritten/prices.ods": ("Open", "Closed", "Yes", "Red rose", *RANGES),
    "rewritten/text.docx": (),
    "rewritten/goods.xlsx": ("Open",),
    "rewritten/talk.pptx": ("<number>",),
}
SHOWN = " or ".join(f"local-name() = '{each}'" for each in ("p", "h", "title", "desc"))
HIDDEN = " or ".join(
    f"local-name() = '{each}'"
    for each in ("creator", "creator-initials", "date", "binary-data", "note-citation")
)

Runs = list[tuple[str, str]]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents in `source`, and with their words in capitals in `target`."""
    if not PYTHON.exists():
        pytest.skip("the clients are not installed; install them with `make clients`")
    folder = tmp_path_factory.mktemp("office")
    for name in ("source", "target", "others", "rewritten"):
        (folder / name).mkdir()
    script("write", folder / "source")
    translate(folder / "source", folder / "target")
    return folder


def translate(source: Path, target: Path) -> None:
    for path in source.iterdir():
        document = read_document(path.name, path.read_bytes())
        written = document.write([upper(each) for each in document.texts()], "pt")
        (target / path.name).write_bytes(written)


def script(action: str, folder: Path) -> str:
    command = [*map(str, (PYTHON, SCRIPT, action, folder))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def runs(folder: Path) -> tuple[dict[str, list[Runs]], dict[str, list[Runs]]]:
    """The runs of the source and of the target, by file and by paragraph."""
    source, target = (json.loads(script("read", folder / name)) for name in ("source", "target"))
    return source, target


def merged(runs: Runs) -> Runs:
    """Joins texts of one formatting, and white space with the text before it."""
    found: Runs = []
    for words, look in runs:
        if found and (look == found[-1][1] or not words.strip()):
            found[-1] = (found[-1][0] + words, found[-1][1])
        elif words:
            found.append((words, look))
    return [(words.upper(), look) for words, look in found]


@pytest.mark.parametrize("name", FILES)
def test_runs_keep_their_formatting(
    runs: tuple[dict[str, list[Runs]], dict[str, list[Runs]]], name: str
) -> None:
    source, target = runs
    assert [*map(merged, target[name])] == [*map(merged, source[name])]


@pytest.fixture(scope="session")
def convert(folder: Path) -> Callable[[str, Iterable[Path], Path], None]:
    """Converts files by LibreOffice. The arguments are a format, the files, and a folder."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed; install it with `make office`")
    start = [program, f"-env:UserInstallation=file://{folder}/profile", "--headless"]

    def convert(kind: str, files: Iterable[Path], output: Path) -> None:
        command = [*start, "--convert-to", kind, "--outdir", *map(str, (output, *files))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        assert done.returncode == 0, done.stderr

    return convert


@pytest.fixture(scope="session")
def opened(folder: Path, convert: Callable[[str, Iterable[Path], Path], None]) -> Path:
    """A folder with what LibreOffice has read of the translated documents."""
    for name, kind in REWRITTEN.items():
        convert(kind, [folder / "source" / name], folder / "others")
    translate(folder / "others", folder / "rewritten")
    for kind, suffixes in TEXT_FORMATS.items():
        for each in ("target", "rewritten"):
            files = [path for path in (folder / each).iterdir() if path.suffix in suffixes]
            convert(kind, files, folder / "opened" / each)
    return folder / "opened"


@pytest.mark.parametrize("name", REMAINING)
def test_libreoffice_shows_translated_words_alone(opened: Path, name: str) -> None:
    (path,) = (opened / name).parent.glob(f"{Path(name).stem}.*")
    root = etree.parse(path, etree.XMLParser(huge_tree=True)).getroot()
    texts = root.xpath(f"//*[{SHOWN}]//text()[not(ancestor::*[{HIDDEN}])]")
    assert sum(map(str.isupper, texts)) >= 2
    remaining = {text.strip() for text in texts if text != text.upper()}
    assert remaining == set(REMAINING[name])


@pytest.mark.parametrize("name", ["prices.xlsx", "goods.ods"])
def test_formulas_give_the_same_results(
    folder: Path, convert: Callable[[str, Iterable[Path], Path], None], name: str, tmp_path: Path
) -> None:
    """The words of each text change, and so would the results of formulas that name them."""
    source = folder / "source" / name
    document = read_document(name, source.read_bytes())
    target = tmp_path / f"target-{name}"
    target.write_bytes(document.write([f"A {text}" for text in document.texts()], "pt"))
    convert("csv", [source, target], tmp_path)
    before, after = (
        re.findall(r"[\d.]+|Yes", (tmp_path / file.name).with_suffix(".csv").read_text())
        for file in (source, target)
    )
    assert after == before
    assert {"2", "16"} < {*before}
