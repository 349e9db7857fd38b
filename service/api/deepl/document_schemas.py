"""Schemas of DeepL's requests and responses about documents.

Source: https://developers.deepl.com/api-reference/document.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.request.parameters import Parameters, UploadedFile


class DocumentRequest(Parameters):
    """The fields of `POST /v2/document`, a multipart form."""

    file: UploadedFile
    target_lang: str = Field(description="Language code, such as `PT` or `PT-BR`.")
    source_lang: str | None = Field(
        None, description="Language code; without it the language of the document is detected."
    )
    filename: str | None = Field(
        None, description="Name of the document, in place of the name of the uploaded file."
    )
    output_format: str | None = Field(
        None, description="Extension of the translation. It must equal the document's extension."
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = Field(
        "default",
        description="No model has a choice of formality, so `more` and `less` are refused.",
    )
    glossary_id: str | None = Field(
        None, description="Glossary whose terms the translation uses; needs `source_lang`."
    )
    auth_key: Any = Field(
        None, description="Key, if the server has keys and the header `Authorization` has none."
    )


class DocumentHandle(BaseModel):
    """The id and the key of an uploaded document. Both are secret, and later requests need both."""

    document_id: str
    document_key: str


class DocumentKeyRequest(Parameters):
    """The body of `POST /v2/document/{id}` and `POST /v2/document/{id}/result`: JSON or a form."""

    document_key: str = Field(description="The key that the upload returned.")
    auth_key: Any = Field(
        None, description="Key, if the server has keys and the header `Authorization` has none."
    )


class DocumentStatus(BaseModel):
    """The status of a document; members without a value are absent."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = Field(
        None,
        description="Estimated time until the translation is done. Present only while `status` is "
        "`translating`.",
    )
    billed_characters: int | None = Field(
        None, description="Number of code points of the texts, if `status` is `done`."
    )
    error_message: str | None = Field(
        None, description="Reason for the failure, if `status` is `error`."
    )
    message: str | None = Field(None, description="The same as `error_message`.")
