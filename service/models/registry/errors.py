"""What can go wrong between a reference and a model's files.

RegistryError
├─ UnknownReferenceError   a reference that names nothing we know of
├─ ManifestError           a manifest that cannot be read, with every fault
├─ NotPublishedError       the registry has no such model, revision or file
├─ AccessRefusedError      the registry wants a token, or another one
├─ DownloadError           the network or the registry failed, also when asked again
├─ DamagedFileError        size or sum are not those that were published, pinned or remembered
├─ DiskFullError           no space left; what was downloaded is kept
├─ CacheError              the cache cannot be read or written
├─ OfflineError            the network is needed and REGARD_OFFLINE forbids it
└─ MissingFilesError       files that the server needs are not on disk: all of them
"""


class RegistryError(Exception):
    """The root of every error of this package."""


class UnknownReferenceError(RegistryError):
    """A reference that names nothing we know of."""


class ManifestError(RegistryError):
    """A manifest that cannot be read.

    Args:
        name: The file.
        faults: Every one that was found, not only the first.
    """

    def __init__(self, name: str, faults: list[str]) -> None:
        self.faults = faults
        super().__init__(f"{name}: " + "; ".join(faults))


class NotPublishedError(RegistryError):
    """The registry has no such model, revision or file."""


class AccessRefusedError(RegistryError):
    """The registry wants a token, or another one."""


class DownloadError(RegistryError):
    """The network or the registry failed, also when asked again."""


class DamagedFileError(RegistryError):
    """A file has not the size or sum that was published, pinned or remembered."""


class DiskFullError(RegistryError):
    """No space is left; what was downloaded is kept."""


class CacheError(RegistryError):
    """The cache cannot be read or written."""


class OfflineError(RegistryError):
    """The network is needed, and the settings forbid it."""


class MissingFilesError(RegistryError):
    """Files that the server needs are not on disk.

    Args:
        faults: One for each file, or for each model of which nothing is known.
        advice: The command that fetches them.
    """

    def __init__(self, faults: list[str], advice: str) -> None:
        self.faults = faults
        lines = [f"  {fault}" for fault in faults]
        super().__init__("\n".join(["models are not complete:", *lines, advice]))
