"""Errors of finding, fetching and checking the files of a model.

A reference is a text that names a model, such as `hf:NAME`. A manifest is a file that lists models.
A file is pinned if a manifest gives the checksum that the file must have.

RegistryError
├─ UnknownReferenceError   the text is not a valid reference
├─ ManifestError           a manifest cannot be read; the message lists every fault
├─ NotPublishedError       the registry has no such model, revision or file
├─ AccessRefusedError      the registry asks for a token, or refuses the given token
├─ DownloadError           the network or the registry failed; retries failed or would not help
├─ DamagedFileError        a file has another size or checksum, or a pinned file is missing
├─ DiskFullError           the disk has too little free space
├─ CacheError              the cache cannot be read or written
├─ OfflineError            the network is needed, but a setting forbids it
└─ MissingFilesError       files that the server needs are not on disk; the message lists them all

TransientError             one try failed; `HttpClient.retry` tries again or raises
                           DownloadError
"""


class RegistryError(Exception):
    """Base class of all errors of this package except TransientError."""


class UnknownReferenceError(RegistryError):
    """The text is not a valid reference."""


class ManifestError(RegistryError):
    """A manifest cannot be read.

    Args:
        name: Path of the manifest.
        faults: Every fault that was found, not only the first.
    """

    def __init__(self, name: str, faults: list[str]) -> None:
        self.faults = faults
        super().__init__(f"{name}: " + "; ".join(faults))


class NotPublishedError(RegistryError):
    """The registry has no such model, revision or file."""


class AccessRefusedError(RegistryError):
    """The registry asks for a token, or refuses the given token."""


class DownloadError(RegistryError):
    """The network or the registry failed, and all retries failed or would not help."""


class DamagedFileError(RegistryError):
    """A file's size or checksum differs from the value in the registry, the manifest or the cache.

    This error is also raised for a missing file whose checksum a manifest pins.
    """


class DiskFullError(RegistryError):
    """The disk has too little free space; files that were already fetched are kept."""


class CacheError(RegistryError):
    """The cache cannot be read or written."""


class OfflineError(RegistryError):
    """The network is needed, but a setting forbids it."""


class MissingFilesError(RegistryError):
    """Files that the server needs are not on disk.

    Args:
        faults: One message for each file that is missing or has another size than recorded, and
            one for each model that was never pulled.
        advice: The command that fetches the files.
    """

    def __init__(self, faults: list[str], advice: str) -> None:
        self.faults = faults
        lines = [f"  {fault}" for fault in faults]
        super().__init__("\n".join(["models are not complete:", *lines, advice]))


class TransientError(Exception):
    """One try failed, but a later try may succeed.

    Args:
        reason: Description of the failure.
        retry_after_seconds: Pause that the server asks for; 0 if it asks for none.

    Attributes:
        has_progressed: Whether the try received new bytes.
    """

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        self.has_progressed = False
        super().__init__(reason)
