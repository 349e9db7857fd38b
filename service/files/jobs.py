"""Finds the files to translate, and chooses the path of each translation."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.documents.formats import FORMATS


@dataclass(frozen=True, slots=True)
class Job:
    """A file to translate, and the file for its translation."""

    source: Path
    target: Path

    @property
    def is_done(self) -> bool:
        return self.target.is_file() and self.target.stat().st_mtime >= self.source.stat().st_mtime


def default_target(source: Path, language: str) -> Path:
    """Returns the path of a translation.

    With the language `pt`, the path is `book.pt.docx` for the file `book.docx`, and `texts.pt` for
    the folder `texts`. If the source is `.` or `..`, the function first finds the real path of
    this folder. The translation is then placed beside the folder, and named after it.

    Args:
        source: File or folder.
        language: Code of the target language.
    """
    named = source.resolve() if source.name in ("", "..") else source
    return named.with_name(f"{named.stem}.{language}{named.suffix}")


def jobs_of(source: Path, target: Path) -> Iterator[Job]:
    """Yields one job for a file, or one job for each document in a folder and its subfolders.

    A document is a file of a known format. The jobs of a folder are sorted by path. Hidden files
    and hidden folders are left out. If `target` is inside `source`, it is also left out.
    """
    if not source.is_dir():
        yield Job(source, target / source.name if target.is_dir() else target)
        return
    root, translations = source.resolve(), target.resolve()
    has_subfolder = root in translations.parents
    for path in sorted(source.rglob("*")):
        below = path.relative_to(source)
        is_hidden = any(part.startswith(".") for part in below.parts)
        if is_hidden or path.suffix.lower() not in FORMATS:
            continue
        if has_subfolder and (root / below).is_relative_to(translations):
            continue
        if path.is_file():
            yield Job(path, target / below)
