"""DeepLX's dialect. DeepLX is a server whose clients expect DeepL's translations without a key.

Source: https://github.com/OwO-Network/DeepLX, `service/service.go`.
"""

import time
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api.context import HttpContext
from service.api.deepl.schemas import TagHandling
from service.api.dialect import Dialect
from service.api.errors import KEYS_401, responses_of, status_of
from service.api.request import translation
from service.api.request.handlers import route
from service.api.request.parameters import FORM, JSON
from service.errors import ServiceError
from service.tasks.context import RequestContext
from service.tasks.parameters import Parameters, example, not_empty


class DeepLXErrorBody(BaseModel):
    model_config = example(code=400, message="zz is not supported; supported: en, pt")

    code: int = Field(description="Status of the response.")
    message: str = Field(description="The fault, with the value, the limit and the remedy.")


ERRORS = responses_of(DeepLXErrorBody, 400, 401, 403, 413, 429, 500, 503, 504)

router = APIRouter(tags=["deeplx"], responses=ERRORS)


class DeepLXRequest(Parameters):
    model_config = example(text="The cat sat on the mat.", source_lang="EN", target_lang="PT")

    text: str = Field(description="Text to translate.", json_schema_extra=not_empty)
    source_lang: str = Field("auto", description="Language code, or `auto`.")
    target_lang: str = Field(description="Language code.")
    tag_handling: TagHandling = Field(None, description="`html` or `xml` if the text has tags.")


class DeepLXResponse(BaseModel):
    code: Literal[200] = 200
    id: int = Field(description="Time of the reply, in milliseconds.")
    data: str = Field(description="Translation.")
    alternatives: list[str] = Field(description="Always empty, as DeepLX itself sends it.")
    source_lang: str = Field(description="Code of the source language, in upper case.")
    target_lang: str
    method: Literal["Free"] = "Free"


@route(router.post, "/v1/translate", DeepLXResponse, include_in_schema=False)
@route(router.post, "/deeplx/translate", DeepLXResponse, JSON, FORM)
async def translate(context: HttpContext, body: DeepLXRequest) -> DeepLXResponse:
    """Translates a text, in DeepLX's shape. `POST /translate` does it too, if there is no `q`."""
    with context.stage("validate"):
        source = "source_lang", body.source_lang
        target = "target_lang", body.target_lang
        wanted = translation.translation_request(
            context, ("text", body.text), source, target, body.tag_handling or ""
        )
    (result,) = await translation.translate(context, wanted)
    return DeepLXResponse(
        id=time.time_ns() // 1_000_000,
        data=result.text,
        alternatives=[],
        source_lang=translation.source_of(result, wanted.source or "").upper(),
        target_lang=body.target_lang,
    )


def deeplx_shape(error: ServiceError, _context: RequestContext) -> tuple[int, dict[str, Any]]:
    status = status_of(error, KEYS_401)
    return status, {"code": status, "message": error.joined}


DIALECT = Dialect(
    (router,),
    tasks=dict.fromkeys(("/v1/translate", "/deeplx/translate"), "translate"),
    error_shape=deeplx_shape,
)
