"""Errors of finding, fetching and checking the files of a model."""


class RegistryError(Exception):
    """A reference, a manifest, the cache, a registry or a file of a model cannot be used."""


class TransientError(Exception):
    """One try failed; `HttpClient.retry` tries again or raises RegistryError."""

    def __init__(self, reason: str, retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds  # as the server asks; 0 for none
        super().__init__(reason)
