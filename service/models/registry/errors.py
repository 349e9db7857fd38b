"""Errors of finding, fetching and checking the files of a model."""


class RegistryError(Exception):
    """Base class of all errors of this package except TransientError."""


class UnknownReferenceError(RegistryError):
    """The text is not a valid reference."""


class ManifestError(RegistryError):
    """A manifest cannot be read; the message lists every fault."""

    def __init__(self, name: str, faults: list[str]) -> None:
        self.faults = faults
        super().__init__(f"{name}: " + "; ".join(faults))


class DamagedFileError(RegistryError):
    """A file has another size or checksum than expected, or a pinned file is missing."""


class CacheError(RegistryError):
    """The cache cannot be read or written."""


class MissingFilesError(RegistryError):
    """Files that the server needs are not on disk; `advice` is the command that fetches them."""

    def __init__(self, faults: list[str], advice: str) -> None:
        self.faults = faults
        lines = [f"  {fault}" for fault in faults]
        super().__init__("\n".join(["models are not complete:", *lines, advice]))


class TransientError(Exception):
    """One try failed; `HttpClient.retry` tries again or raises RegistryError."""

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds  # as the server asks; 0 for none
        super().__init__(reason)
