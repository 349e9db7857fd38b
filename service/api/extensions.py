"""The forms of browser extensions: Immersive Translate, KISS Translator and Hua Ci Fan Yi (hcfy).

Source: https://immersivetranslate.com/en/docs/services/custom/;
https://github.com/fishjar/kiss-translator, `custom-api_v2.md`;
https://hcfy.ai/en/docs/services/custom-api.
"""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api import error_texts
from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.errors import ERRORS
from service.api.request.handlers import route
from service.api.request.translation import source_of, translate, translation_request
from service.tasks.parameters import Parameters, TextList, example, not_empty
from service.text.language_codes import display_name
from service.text.language_names import code_of

router = APIRouter(tags=["extensions"], responses=ERRORS)

HCFY_NAMES = {"zh": "中文(简体)", "zh-Hans": "中文(简体)", "zh-Hant": "中文(繁体)"}
"""Names of hcfy that differ from the Chinese names of CLDR."""


class ImmeRequest(Parameters):
    model_config = example(source_lang="auto", target_lang="pt", text_list=["A cat.", "A dog."])

    source_lang: str = Field("auto", description="Language code, or `auto`.")
    target_lang: str = Field(description="Language code.")
    text_list: TextList = Field(description="Texts to translate.")


class ImmeTranslation(BaseModel):
    detected_source_lang: str = Field(description="Language code.")
    text: str


class ImmeResponse(BaseModel):
    translations: list[ImmeTranslation]


@route(router.post, "/imme", ImmeResponse)
async def imme(context: HttpContext, body: ImmeRequest) -> Any:
    """Translates texts for the custom API of Immersive Translate."""
    texts, source = ("text_list", body.text_list), body.source_lang
    pair = ("source_lang", source), ("target_lang", body.target_lang)
    results = await translate(context, translation_request(context, texts, *pair))
    return {
        "translations": [
            {"detected_source_lang": source_of(result, source), "text": result.text}
            for result in results
        ]
    }


class KissRequest(Parameters):
    """The parameters of KISS Translator, for one text or, in newer versions, for several."""

    model_config = {**example(**{"from": "en", "to": "pt", "texts": ["A cat.", "A dog."]})}

    text: str | None = Field(None, description="Text to translate.", json_schema_extra=not_empty)
    texts: TextList | None = Field(None, description="Texts to translate, in place of `text`.")
    source: str = Field("auto", alias="from", description="Language code, or `auto`.")
    target: str = Field(alias="to", description="Language code.")


class KissTranslation(BaseModel):
    text: str
    src: str = Field(description="Code of the source language.")


class KissBatch(BaseModel):
    translations: list[KissTranslation]


@route(router.post, "/kiss", KissTranslation | KissBatch)
async def kiss(context: HttpContext, body: KissRequest) -> Any:
    """Translates a text or texts for the custom API of KISS Translator."""
    texts = ("text", body.text or "") if body.texts is None else ("texts", body.texts)
    pair = ("from", body.source), ("to", body.target)
    results = await translate(context, translation_request(context, texts, *pair))
    found = [{"text": each.text, "src": source_of(each, body.source)} for each in results]
    return found[0] if body.texts is None else {"translations": found}


class HcfyRequest(Parameters):
    """The parameters of hcfy, which names languages in Chinese. Codes are accepted too."""

    model_config = example(text="The cat sat.", destination=["葡萄牙语", "英语"], source="英语")

    text: str = Field(description="Text to translate.", json_schema_extra=not_empty)
    destination: TextList = Field(
        description="Target languages. The second one is used if the text is in the first one."
    )
    source: str = Field("", description="Source language; by default it is detected.")
    name: Any = Field(None, description="Accepted and ignored.")


class HcfyResponse(BaseModel):
    text: str = Field(description="Text of the request.")
    from_: str = Field(alias="from", description="Source language.")
    to: str = Field(description="Target language, one of `destination`.")
    result: list[str] = Field(description="Paragraphs of the translation.")


@route(router.post, "/hcfy", HcfyResponse)
async def hcfy(context: HttpContext, body: HcfyRequest) -> Any:
    """Translates a text for the custom translation source of hcfy."""
    if not body.destination:
        raise error_texts.missing("destination")
    offered = context.services.catalog.languages

    def code(name: str) -> str:
        return code_of(name, offered) or name

    source = code(body.source)
    targets = {code(name): name for name in body.destination[:2]}
    # The text counts once towards the quota, even if the second target is used.
    async with context.services.quota.spent(context.account, len(body.text)):
        for target in targets:
            pair = ("source", source), ("destination", target)
            wanted = translation_request(context, ("text", body.text), *pair)
            (result,) = await context.services.translator.translate(wanted, context)
            if result.route:
                break
    found = source_of(result, source)
    language = HCFY_NAMES.get(found) or display_name(found, "zh")
    return {
        "text": body.text,
        "from": body.source or language,
        "to": targets[target],
        "result": result.text.split("\n"),
    }


DIALECT = Dialect((router,), tasks=dict.fromkeys(("/imme", "/kiss", "/hcfy"), "translate"))
