"""Documents that are ZIP archives of XML files. Their size and compression ratio are limited."""

import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from service.documents.base import DocumentError, DocumentTooLargeError
from service.documents.markup.xml import XmlDocument

_DAMAGED = (
    BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
    OSError,
)
"""Errors of damaged archives."""

_METHODS = {9: "deflate64", 12: "bzip2", 14: "LZMA"}

MAX_MEMBERS = 10_000
MAX_BYTES = 128 * 1024 * 1024
MAX_RATIO = 200
"""Largest size of an unpacked archive, as a multiple of the packed size."""

FREE_BYTES = 16 * 1024 * 1024
"""Largest unpacked size for which MAX_RATIO does not apply.

Small files of repetitive XML may have a high ratio.
"""

CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive."""

    info: ZipInfo
    data: bytes


def read_archive(data: bytes) -> dict[str, Member]:
    """Returns the files of an archive by name, in the order of the archive.

    All limits are checked before the archive is unpacked. The size is checked again during the
    unpacking, because the headers of an archive may state wrong sizes.

    Raises:
        DocumentError: The archive is damaged, encrypted or packed in an unusual way, or has two
            files with the same name.
        DocumentTooLargeError: The archive is over a limit.
    """
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            return _unpack(archive, len(data))
    except _DAMAGED as error:
        raise DocumentError(f"the archive is damaged: {error}; save the document again") from None


def _unpack(archive: ZipFile, packed_bytes: int) -> dict[str, Member]:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise DocumentTooLargeError(
            f"the archive has {len(infos)} files; the limit is {MAX_MEMBERS}"
        )
    for info in infos:
        _check_method(info)
    _check_size(sum(info.file_size for info in infos), packed_bytes)
    members: dict[str, Member] = {}
    total = 0
    for info in infos:
        if info.filename in members:
            raise DocumentError(f"the archive has the file {info.filename[:80]!r} twice")
        unpacked = bytearray()
        with archive.open(info) as file:
            while chunk := file.read(CHUNK_BYTES):
                unpacked += chunk
                _check_size(total + len(unpacked), packed_bytes)
        total += len(unpacked)
        members[info.filename] = Member(info, bytes(unpacked))
    return members


def _check_method(info: ZipInfo) -> None:
    """Refuses a file that is encrypted, or packed in another way than documents are.

    `zipfile` unpacks 256 KiB of bzip2 or LZMA at a time, which may give gigabytes.
    """
    if info.flag_bits & 1:
        raise DocumentError("the document is encrypted; remove its password")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        raise DocumentError(
            f"the archive packs its files with {method}; documents use deflate. Save the document "
            "again in the program that made it"
        )


def _check_size(unpacked_bytes: int, packed_bytes: int) -> None:
    limit = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * packed_bytes))
    if unpacked_bytes > limit:
        raise DocumentTooLargeError(
            f"the archive has {packed_bytes} bytes, but more than {limit} after unpacking, which "
            "is the limit; split the document"
        )


def write_archive(members: Mapping[str, Member], changed: Mapping[str, bytes]) -> bytes:
    """Returns an archive with the same files as another archive, in the same order.

    Args:
        members: Files of the archive that was read.
        changed: New content of some files, by name.
    """
    output = io.BytesIO()
    with ZipFile(output, "w") as archive:
        for name, member in members.items():
            info = ZipInfo(name, member.info.date_time)
            info.external_attr = member.info.external_attr
            is_stored = member.info.compress_type == ZIP_STORED
            info.compress_type = ZIP_STORED if is_stored else ZIP_DEFLATED
            archive.writestr(info, changed.get(name, member.data))
    return output.getvalue()


class ArchiveDocument:
    """An archive with XML files to translate. `texts` returns the texts of these files as HTML.

    Args:
        members: All files of the archive.
        parts: XML documents of the files to translate, by file name. `texts` returns the texts
            in the order of this mapping.
    """

    is_html = True

    def __init__(self, members: Mapping[str, Member], parts: Mapping[str, XmlDocument]) -> None:
        self.members = members
        self.parts = parts

    def texts(self) -> list[str]:
        """Returns the texts to translate, part by part."""
        return [text for part in self.parts.values() for text in part.texts()]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the archive with the translations."""
        changed, begin = {}, 0
        for name, part in self.parts.items():
            end = begin + len(part.texts())
            changed[name] = part.write(translations[begin:end], language)
            begin = end
        return write_archive(self.members, changed)


def read_parts(
    members: Mapping[str, Member], names: Sequence[str], read: Callable[[bytes, str], XmlDocument]
) -> ArchiveDocument:
    """Reads the XML files to translate, and returns them with the archive as one document.

    Args:
        members: All files of the archive.
        names: Names of the files to translate. Names that are not in the archive are left out.
        read: Reads one file. Its arguments are the content and the name of the file.

    Raises:
        DocumentError: A file to translate is damaged or too large.
    """
    parts = {name: read(members[name].data, name) for name in names if name in members}
    return ArchiveDocument(members, parts)
