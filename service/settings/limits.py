"""Limits of requests, of their texts, and of the requests in progress."""

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from service.settings.types import PositiveInt


class LimitSettings(BaseModel):
    """Holds the limits of requests."""

    max_source_tokens: int = Field(
        128,
        ge=16,
        description="Longest sentence in tokens. A longer sentence is translated in pieces.",
    )
    max_body_bytes: PositiveInt = Field(
        2 * 1024 * 1024, description="Largest size of a request's body."
    )
    max_inputs: PositiveInt = Field(
        2048,
        description="Largest number of texts in one request. OpenAI's clients send up to 2048.",
    )
    max_text_chars: int = Field(
        0,
        ge=0,
        description="Largest number of characters in one text to translate. `0` sets no limit.",
    )
    max_beam_size: PositiveInt = Field(
        8,
        le=64,
        validate_default=True,
        description="Largest beam size. A request gets at most max_beam_size - 1 alternatives.",
    )
    guard_beam_size: int = Field(
        2,
        ge=0,
        description="Beam size with which a sentence is decoded again if its translation loops, is "
        "too long, copies the source or loses numbers; at most max_beam_size. `1` only reports "
        "such translations, and `0` turns the guards off.",
    )
    max_pending_requests: PositiveInt = Field(
        1024, description="Largest number of requests in progress. Further requests get 429."
    )
    max_pending_tokens: PositiveInt = Field(
        131072, description="Largest number of source tokens in progress. Further requests get 429."
    )
    max_pending_detections: PositiveInt = Field(
        64,
        description="Largest number of requests that wait for language detection in one HTTP "
        "process. Further requests get 429. Short texts do not wait.",
    )
    share_sentences: bool = Field(
        True,
        description="Compute equal sentences only once if they are in progress at the same time.",
    )
    cache_sentences: int = Field(
        0,
        ge=0,
        description="Largest number of translated sentences that are kept in memory and not "
        "computed again; needs share_sentences. `0` keeps none.",
    )
    bulk_sentences: PositiveInt = Field(
        16,
        description="A request with more sentences or texts than this waits in the bulk lane, "
        "behind short requests.",
    )
    max_attention_values: PositiveInt = Field(
        1_000_000,
        description="Largest number of attention weights in one response. Requests for more get "
        "413. With top_k, eight times as many may be computed.",
    )
    max_token_vectors: PositiveInt = Field(
        16384,
        description="Largest number of token vectors in a response of /embed_all. Requests for "
        "more get 422.",
    )
    files: bool = Field(
        False, description="Offer /translate_file and /v2/document, which translate documents."
    )
    max_file_bytes: PositiveInt = Field(20 * 1024 * 1024, description="Largest size of a document.")
    max_files: PositiveInt = Field(
        8,
        description="Largest number of documents that one HTTP process translates at once. Further "
        "documents get 429.",
    )

    max_connections: PositiveInt = Field(
        4096,
        description="Largest number of open connections of each HTTP process. Further connections "
        "get 503. Idle connections are closed first.",
    )
    max_header_bytes: int = Field(
        32 * 1024,
        ge=1024,
        description="Largest size of the first line and the headers of a request. Larger ones get "
        "431.",
    )
    max_headers: PositiveInt = Field(
        100, description="Largest number of headers of a request. More headers get 431."
    )
    max_buffered_bytes: PositiveInt = Field(
        256 * 1024 * 1024,
        description="Largest number of bytes of bodies and unread replies in each HTTP process. "
        "Further large bodies get 429.",
    )

    @field_validator("max_beam_size")
    @classmethod
    def _fits(cls, beam_size: int, info: ValidationInfo) -> int:
        rows: int = info.data.get("max_rows", 0)
        if 0 < rows < beam_size:
            raise ValueError(
                f"a beam must fit in REGARD_MAX_ROWS, which is {rows}; "
                "lower REGARD_MAX_BEAM_SIZE or raise REGARD_MAX_ROWS"
            )
        return beam_size

    @field_validator("max_buffered_bytes")
    @classmethod
    def _holds_a_body(cls, size: int, info: ValidationInfo) -> int:
        largest: int = info.data.get("max_body_bytes", 0)
        if size < largest:
            raise ValueError(
                f"a body must fit in the buffer, and REGARD_MAX_BODY_BYTES is {largest}; "
                "lower it or raise REGARD_MAX_BUFFERED_BYTES"
            )
        return size

    @property
    def max_alternatives(self) -> int:
        return self.max_beam_size - 1
