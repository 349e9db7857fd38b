"""Reads XML files, and ZIP archives of XML files, up to a limit of their size.

The XML parser does not expand entities, load DTDs or use the network.
"""

import io
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from lxml import etree

from service.documents.base import (
    DocumentError,
    DocumentTooLargeError,
    PassageDocument,
    skipped_in,
)
from service.documents.tagged import Block, Element

# Limits on the XML files of a document together. A node takes up to 400 bytes of memory.
MAX_XML_BYTES = 32 * 1024 * 1024
MAX_NODES = 1_000_000

# Code of libxml2's errors for too little memory. Source: libxml2, enum xmlParserErrors.
NO_MEMORY = 2

# All before the root of a file.
_START = re.compile(rb"(?:\xef\xbb\xbf|\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*>)*+", re.DOTALL)

_DAMAGED = (
    BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    ArithmeticError,
    ValueError,
    OSError,
)

# Start of the containers of Office before 2007, and of encrypted documents since then.
OLD_FORMAT = bytes.fromhex("D0CF11E0A1B11AE1")

_METHODS = {9: "deflate64", 12: "bzip2", 14: "LZMA"}
MAX_MEMBERS = 10_000
MAX_BYTES = 128 * 1024 * 1024

# Largest size of an unpacked archive, as a multiple of the packed size. The limit does not apply to
# archives of up to FREE_BYTES, because small files of repetitive XML may have a high ratio.
MAX_RATIO = 200
FREE_BYTES = 16 * 1024 * 1024


class XmlParser:
    """Parses the XML files of one document, which have their limits together."""

    def __init__(self) -> None:
        self.num_bytes = self.num_nodes = 0

    def parse(self, data: bytes, name: str) -> Element:
        """Returns the root of an XML file. `name` is for error messages."""
        self._count(data, name)
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
        )
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            if getattr(error, "code", None) == NO_MEMORY:
                raise MemoryError from None
            raise DocumentError(f"{name} is not well-formed XML: {error}") from None
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and any(True for _ in dtd.iterentities()):
            raise DocumentError(f"{name} declares XML entities, which are not read; remove them")
        return root

    def _count(self, data: bytes, name: str) -> None:
        """Adds a file to the sums. Each node has the byte `<` or, if it is an attribute, `=`."""
        self.num_bytes += len(data)
        end_tags = data.count(b"</") + data.count(b"<\0/")
        self.num_nodes += data.count(b"<") - end_tags + data.count(b"=")
        for number, limit, unit in (
            (self.num_bytes, MAX_XML_BYTES, "bytes"),
            (self.num_nodes, MAX_NODES, "elements and attributes"),
        ):
            if number > limit:
                raise DocumentTooLargeError(
                    f"the XML of the document has {number} {unit} up to {name}; the limit is "
                    f"{limit}. Split the document"
                )


@dataclass(frozen=True)
class XmlDocument:
    """An XML file with blocks to translate, in the order of the file. Their texts are HTML."""

    is_html = True
    skipped: ClassVar[Mapping[str, int]] = {}

    root: Element
    blocks: Sequence[Block]

    # Writes the code of the target language. Some formats have no place for the code.
    set_language: Callable[[Element, str], None] | None = None

    source: bytes = b""  # of a file that keeps all before its root, and its last line break

    def texts(self) -> list[str]:
        return [block.text.html for block in self.blocks]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns the file with the translations, in its original encoding."""
        for block, translation in zip(self.blocks, translations, strict=True):
            block.set(translation)
        if language and self.set_language is not None:
            self.set_language(self.root, language)
        tree = self.root.getroottree()
        written: bytes = etree.tostring(
            tree,
            encoding=tree.docinfo.encoding or "UTF-8",
            xml_declaration=True,
            standalone=tree.docinfo.standalone or None,  # lxml would add `no` where none is
        )
        if not self.source or b"\0" in self.source:  # UTF-16
            return written
        start, own_start = (next(_START.finditer(each))[0] for each in (written, self.source))
        end = self.source[len(self.source.rstrip()) :]
        return own_start + written.removeprefix(start) + end


class Member(NamedTuple):
    info: ZipInfo
    data: bytes


def read_archive(data: bytes, required: str = "") -> dict[str, Member]:
    """Returns the files of an archive by name, in order. The file `required` must be among them."""
    if data.startswith(OLD_FORMAT):
        raise DocumentError(
            "the document is encrypted or of an old format such as .doc; remove its password, or "
            "save it in a format of today"
        )
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            members = _unpack(archive, len(data))
    except _DAMAGED as error:
        raise DocumentError(f"the archive is damaged: {error}; save the document again") from None
    if required and required not in members:
        raise DocumentError(f"the archive has no {required}; is it another format?")
    return members


def _unpack(archive: ZipFile, packed_bytes: int) -> dict[str, Member]:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise DocumentTooLargeError(
            f"the archive has {len(infos)} files; the limit is {MAX_MEMBERS}"
        )
    limit = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * packed_bytes))
    if sum(info.file_size for info in infos) > limit:
        raise DocumentTooLargeError(
            f"the archive has {packed_bytes} bytes, but more than {limit} after unpacking, which "
            "is the limit; split the document"
        )
    for info in infos:
        if info.flag_bits & 1:
            raise DocumentError("the document is encrypted; remove its password")
        # `zipfile` unpacks 256 KiB of bzip2 or LZMA at a time, which may give gigabytes.
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
            raise DocumentError(
                f"the archive packs its files with {method}; documents use deflate. Save the "
                "document again in the program that made it"
            )
    members: dict[str, Member] = {}
    for info in infos:
        if info.filename in members:
            raise DocumentError(f"the archive has the file {info.filename[:80]!r} twice")
        with archive.open(info) as file:  # unpacks no more bytes than the headers state
            members[info.filename] = Member(info, file.read(info.file_size))
    return members


class ArchiveDocument:
    """An archive whose files of the given names, if it has them, are XML to translate.

    `read` reads one file. Its arguments are the root and the name of the file.
    """

    is_html = True

    def __init__(
        self,
        members: Mapping[str, Member],
        names: Sequence[str],
        read: Callable[[Element, str], XmlDocument | PassageDocument],
        parser: XmlParser | None = None,
    ) -> None:
        parser = parser or XmlParser()
        self.members = members
        found = [name for name in names if name in members]
        self.skipped = skipped_in(b"".join(members[name].data for name in found))
        self.parts = {name: read(parser.parse(members[name].data, name), name) for name in found}

    def texts(self) -> list[str]:
        return [text for part in self.parts.values() for text in part.texts()]

    def write(self, translations: Sequence[str], language: str) -> bytes:
        """Returns an archive with the same files, in the same order."""
        remaining = iter(translations)
        written = {
            name: part.write([*islice(remaining, len(part.texts()))], language)
            for name, part in self.parts.items()
        }
        output = io.BytesIO()
        with ZipFile(output, "w") as archive:
            for name, (old, data) in self.members.items():
                info = ZipInfo(name, old.date_time)
                info.external_attr, info.compress_type = old.external_attr, old.compress_type
                archive.writestr(info, written.get(name, data))
        return output.getvalue()
