"""The forms of browser extensions: Immersive Translate, KISS Translator and Hua Ci Fan Yi (hcfy).

Source: https://immersivetranslate.com/en/docs/services/custom/;
https://github.com/fishjar/kiss-translator, `custom-api_v2.md`;
https://hcfy.ai/en/docs/services/custom-api.
"""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api import error_texts
from service.api.context import context_of, services_of
from service.api.dialect import Dialect
from service.api.errors import ERRORS
from service.api.request.parameters import described
from service.api.request.reading import read_parameters, unless_disconnected
from service.api.request.translation import source_of, translation_request
from service.api.responses import JSONResponse
from service.tasks.parameters import ListOf, Parameters, example, not_empty
from service.tasks.translation.sentences import TranslatedText
from service.text.language_codes import display_name
from service.text.language_names import code_of

router = APIRouter(tags=["extensions"], responses=ERRORS)

HCFY_NAMES = {"zh": "中文(简体)", "zh-Hans": "中文(简体)", "zh-Hant": "中文(繁体)"}
"""Names of hcfy that differ from the Chinese names of CLDR."""


class ImmeRequest(Parameters):
    model_config = example(source_lang="auto", target_lang="pt", text_list=["A cat.", "A dog."])

    source_lang: str = Field("auto", description="Language code, or `auto`.")
    target_lang: str = Field(description="Language code.")
    text_list: ListOf[str] = Field(description="Texts to translate.", json_schema_extra=not_empty)


class ImmeTranslation(BaseModel):
    detected_source_lang: str = Field(description="Language code.")
    text: str


class ImmeResponse(BaseModel):
    translations: list[ImmeTranslation]


@router.post("/imme", **described(ImmeRequest, ImmeResponse))
async def imme(request: Request) -> Response:
    """Translates texts for the custom API of Immersive Translate."""
    body = await read_parameters(request, ImmeRequest)
    texts, source = ("text_list", body.text_list), body.source_lang
    pair = ("source_lang", source), "target_lang", body.target_lang
    _, results = await translated(request, texts, *pair)
    return JSONResponse(
        {
            "translations": [
                {"detected_source_lang": source_of(result, source), "text": result.text}
                for result in results
            ]
        }
    )


class KissRequest(Parameters):
    """The parameters of KISS Translator, for one text or, in newer versions, for several."""

    model_config = {**example(**{"from": "en", "to": "pt", "texts": ["A cat.", "A dog."]})}

    text: str | None = Field(None, description="Text to translate.", json_schema_extra=not_empty)
    texts: ListOf[str] | None = Field(
        None, description="Texts to translate, in place of `text`.", json_schema_extra=not_empty
    )
    source: str = Field("auto", alias="from", description="Language code, or `auto`.")
    target: str = Field(alias="to", description="Language code.")


class KissTranslation(BaseModel):
    text: str
    src: str = Field(description="Code of the source language.")


class KissBatch(BaseModel):
    translations: list[KissTranslation]


@router.post("/kiss", **described(KissRequest, KissTranslation | KissBatch))
async def kiss(request: Request) -> Response:
    """Translates a text or texts for the custom API of KISS Translator."""
    body = await read_parameters(request, KissRequest)
    texts = ("text", body.text or "") if body.texts is None else ("texts", body.texts)
    _, results = await translated(request, texts, ("from", body.source), "to", body.target)
    found = [{"text": each.text, "src": source_of(each, body.source)} for each in results]
    return JSONResponse(found[0] if body.texts is None else {"translations": found})


class HcfyRequest(Parameters):
    """The parameters of hcfy, which names languages in Chinese. Codes are accepted too."""

    model_config = example(text="The cat sat.", destination=["葡萄牙语", "英语"], source="英语")

    text: str = Field(description="Text to translate.", json_schema_extra=not_empty)
    destination: ListOf[str] = Field(
        description="Target languages. The second one is used if the text is in the first one.",
        json_schema_extra=not_empty,
    )
    source: str = Field("", description="Source language; by default it is detected.")
    name: Any = Field(None, description="Accepted and ignored.")


class HcfyResponse(BaseModel):
    text: str = Field(description="Text of the request.")
    from_: str = Field(alias="from", description="Source language.")
    to: str = Field(description="Target language, one of `destination`.")
    result: list[str] = Field(description="Paragraphs of the translation.")


@router.post("/hcfy", **described(HcfyRequest, HcfyResponse))
async def hcfy(request: Request) -> Response:
    """Translates a text for the custom translation source of hcfy."""
    body = await read_parameters(request, HcfyRequest)
    if not body.destination:
        raise error_texts.missing("destination")
    offered = services_of(request).catalog.languages

    def code(name: str) -> str:
        return code_of(name, offered) or name

    source = code(body.source)
    targets = {code(name): name for name in body.destination[:2]}
    text = "text", body.text
    target, (result,) = await translated(request, text, ("source", source), "destination", *targets)
    found = source_of(result, source)
    language = HCFY_NAMES.get(found) or display_name(found, "zh")
    return JSONResponse(
        {
            "text": body.text,
            "from": body.source or language,
            "to": targets[target],
            "result": result.text.split("\n"),
        }
    )


async def translated(
    request: Request,
    texts: tuple[str, str | list[str]],
    source: tuple[str, str],
    name: str,
    *targets: str,
) -> tuple[str, list[TranslatedText]]:
    """Translates the texts of a request to the first target that is not their own language.

    The texts and the source have the names of their parameters, for errors.

    Args:
        name: Name of the parameter with the targets. A second target is used only if it is needed.

    Returns the used target, and the translations.
    """
    services, context = services_of(request), context_of(request)
    given = [texts[1]] if isinstance(texts[1], str) else texts[1]

    async def translate() -> tuple[str, list[TranslatedText]]:
        # The texts count once towards the quota, even if a second target is used.
        async with services.quota.spent(context.account, sum(map(len, given))):
            for target in targets:
                wanted = translation_request(services, context, texts, source, (name, target))
                results = await services.translator.translate(wanted, context)
                if any(each.route for each in results):
                    break
        return target, results

    return await unless_disconnected(request, translate())


DIALECT = Dialect((router,), tasks=dict.fromkeys(("/imme", "/kiss", "/hcfy"), "translate"))
