"""POST /v1/chat/completions: translates the last message of a chat.

Source: https://platform.openai.com/docs/api-reference/chat.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.api import error_texts, streams
from service.api.context import HttpContext
from service.api.dialect import Dialect
from service.api.openai.errors import OPENAI_ERRORS, openai_shape
from service.api.openai.models import pairs_of
from service.api.openai.prompts import (
    Batch,
    Pair,
    Prompt,
    batch_of,
    instructed,
    pair_in,
    parsed,
    split,
    text_in,
)
from service.api.request import translation
from service.api.request.handlers import route
from service.errors import SHOWN_CHARS, InvalidRequestError
from service.models.catalog import Catalog
from service.models.remote import ServedRemote
from service.models.served import ServedModel
from service.tasks.context import RequestContext
from service.tasks.parameters import ListOf, Parameters, Positive, example, not_empty
from service.tasks.translation.sentences import TranslatedText
from service.tasks.translation.translator import TranslationRequest
from service.text.language_codes import match_language
from service.text.language_names import CODE

router = APIRouter(tags=["chat"], responses=OPENAI_ERRORS)

MODEL_PREFIX = re.compile(r"(?:.*/)?(?:(?:translate|regard)[-_:])?")
MAX_SHOWN_PAIRS = 20
MAX_INSTRUCTIONS = 16  # messages in which a language pair is looked for, beside the last one

HOW_TO_NAME = (
    "Name it as the model, such as en-pt, or auto-pt to detect the source language; or as the "
    "fields source and target; or in a message, such as `Translate from English to Portuguese:` "
    "and the text in the next line"
)


class ContentPart(Parameters):
    """A part of a message. TranslateGemma's clients put the language pair into it."""

    type: Literal["text"] = Field("text", description="Other parts, such as images, are refused.")
    text: str
    source_lang_code: str | None = Field(None, description="Source language.")
    target_lang_code: str | None = Field(None, description="Target language.")


class ChatMessage(Parameters):
    role: str = Field(description="`user`, `system`, `developer` or `assistant`.")
    content: str | ListOf[ContentPart] = Field("", description="Text, or list of parts.")

    @property
    def text(self) -> str:
        parts = self.content
        return parts if isinstance(parts, str) else "\n".join(each.text for each in parts)

    @property
    def pair(self) -> dict[str, Any]:
        parts = [each for each in self.content if isinstance(each, ContentPart)]
        found = next((each for each in parts if each.target_lang_code), None)
        return found.model_dump() if found else {}


class StreamOptions(Parameters):
    include_usage: bool = Field(False, description="Send the numbers of tokens before the end.")


class ChatRequest(Parameters):
    """The body of `POST /v1/chat/completions`. Parameters that are not listed have no effect."""

    model_config = example(
        model="en-pt", messages=[{"role": "user", "content": "The cat sat on the mat."}]
    )

    model: str = Field("", description="A pair such as `en-pt` or `auto-pt`, or any other name.")
    messages: ListOf[ChatMessage] = Field(
        description="The last message of the role `user` has the text.", json_schema_extra=not_empty
    )
    stream: bool = Field(False, description="Send each sentence when it is translated.")
    stream_options: StreamOptions | None = None
    n: Positive = Field(1, description="Number of replies; only 1 is possible.")
    source: str | None = Field(None, description="Code or name of the source language, or `auto`.")
    target: str | None = Field(
        None, description="Code or name of the target language. The message is then the text alone."
    )
    source_language: str | None = Field(None, description="The same as `source`.")
    target_language: str | None = Field(None, description="The same as `target`.")
    translation_options: dict[str, Any] | None = Field(
        None, description="`source_lang` and `target_lang`, as Qwen-MT's clients send them."
    )


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    index: Literal[0] = 0
    message: AnswerMessage
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class ChatUsage(BaseModel):
    """Tokens of the text and of its translation. For a remote model, they are characters."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatResponse(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(description="Time of the reply, in Unix seconds.")
    model: str
    choices: list[Choice]
    usage: ChatUsage


@route(
    router.post,
    "/v1/chat/completions",
    ChatResponse,
    responses={200: {"content": {streams.SSE: {"schema": {"type": "string"}}}}},
)
async def chat_completions(context: HttpContext, body: ChatRequest) -> Any:
    """Translates the last message. The pair is named by the model, by fields or in a message."""
    with context.stage("validate"):
        wanted, batch = resolve(body, context)
    reply = Reply(body, batch, wanted.source or "", context)
    if body.stream:
        sentences = translation.stream(context, wanted)
        return await streams.respond(context, streams.SSE, sentences, reply)
    for result in await translation.translate(context, wanted):
        reply.add(result)
    choice = Choice(message=AnswerMessage(content=reply.content)).model_dump()
    return {**reply.head("chat.completion"), "choices": [choice], "usage": reply.usage}


def resolve(body: ChatRequest, context: HttpContext) -> tuple[TranslationRequest, Batch | None]:
    if body.n > 1:
        raise error_texts.out_of_range("n", "<=", 1, body.n)
    catalog = context.services.catalog
    offered = catalog.languages
    at = max((i for i, each in enumerate(body.messages) if each.role == "user"), default=None)
    if at is None:
        raise InvalidRequestError(
            "Invalid request: no message has the role user; send the text in one", param="messages"
        )
    message = body.messages[at].text
    fields = vars(body) | body.messages[at].pair
    explicit = pair_in(fields, offered).completed(pair_in(body.translation_options or {}, offered))
    pair = explicit.completed(pair_of_model(body.model, catalog))
    batch = batch_of(message, offered)
    if batch is not None:
        pair = pair.completed(batch.pair)
    elif not explicit.target and (prompt := read_prompt(message, offered)):
        check_target(prompt, pair, body.model, offered)
        message, pair = prompt.text, pair.completed(prompt.pair)
    for each in _others(body.messages, at):
        if pair.is_complete:
            break
        value = parsed(each.text)
        if isinstance(value, dict):
            pair = pair.completed(pair_in(value, offered))
        elif found := instructed(each.text, offered):
            pair = pair.completed(found)
    if pair.target is None:
        raise no_pair(body.model, catalog)
    texts = f"messages[{at}][content]", message if batch is None else batch.texts
    source, target = ("source", pair.source), ("target", pair.target)
    return translation.translation_request(context, texts, source, target), batch


def _others(messages: Sequence[ChatMessage], at: int) -> list[ChatMessage]:
    """Returns the messages that may have instructions, those of the system first."""
    system = [each for each in messages if each.role in ("system", "developer")]
    others = system + [each for each in messages[:at][::-1] if each.role == "user"]
    return others[:MAX_INSTRUCTIONS]


def read_prompt(message: str, offered: Sequence[str]) -> Prompt | None:
    value = parsed(message)
    if isinstance(value, dict) and (text := text_in(value)):
        return Prompt(pair_in(value, offered), text)
    return split(message, offered)


def check_target(prompt: Prompt, pair: Pair, model: str, offered: Sequence[str]) -> None:
    asked, target = prompt.pair.target, pair.target
    if asked and target and match_language(asked, offered) != match_language(target, offered):
        raise InvalidRequestError(
            f"Invalid request: the message asks for {asked}, and the model {model[:SHOWN_CHARS]} "
            f"translates to {target}; name one of them. If the message is a text to translate as "
            "it stands, send the field target",
            param="messages",
        )


def pair_of_model(name: str, catalog: Catalog) -> Pair:
    """Returns the pair of a served model, or the pair that a name such as `en-pt` consists of."""
    model = catalog.served.get(catalog.named(name))
    if isinstance(model, ServedModel | ServedRemote):
        return Pair(model.files.source or None, model.files.target or None)
    prefix = MODEL_PREFIX.match(name)
    subtags = re.split("[-_]", name[prefix.end() if prefix else 0 :])
    for at in range(1, min(len(subtags), 4)):
        source, target = "-".join(subtags[:at]), "-".join(subtags[at:])
        codes = [target] if source == "auto" else [source, target]
        if all(CODE.fullmatch(each) and match_language(each, catalog.languages) for each in codes):
            return Pair(None if source == "auto" else source, target)
    return Pair()


def no_pair(model: str, catalog: Catalog) -> InvalidRequestError:
    pairs = [*pairs_of(catalog)]
    more = ", …" if len(pairs) > MAX_SHOWN_PAIRS else ""
    shown = ", ".join(pairs[:MAX_SHOWN_PAIRS]) + more
    return InvalidRequestError(
        f"Invalid request: neither the model {model[:SHOWN_CHARS]} nor a message names a language "
        f"pair. {HOW_TO_NAME}",
        details=f"pairs: {shown}",
        param="model",
    )


@dataclass(eq=False)
class Reply:
    """The reply to a request, from its translated texts or sentences. It writes streams too."""

    body: ChatRequest
    batch: Batch | None
    source: str  # "" if the language is to be detected
    context: RequestContext
    texts: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, result: TranslatedText) -> None:
        """Adds a translated text, or the next sentence of a text."""
        if result.number == len(self.texts):
            self.texts.append("")
            self.sources.append(translation.source_of(result, self.source))
        self.texts[result.number] += result.text
        for sentence in result.sentences:
            self.prompt_tokens += len(sentence.ids)
            self.completion_tokens += len(sentence.result.value[0].tokens)

    @property
    def content(self) -> str:
        if self.batch is None:
            return self.texts[0]
        key, items = self.batch.key, self.batch.items
        translations = [
            {**item, key: text, "sourceLanguage": language}
            for item, text, language in zip(items, self.texts, self.sources, strict=True)
        ]
        return orjson.dumps({"translations": translations}).decode()

    @property
    def usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.completion_tokens
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return usage | {"total_tokens": total}

    def head(self, kind: str) -> dict[str, Any]:
        model = self.body.model or self.context.model
        request_id = f"chatcmpl-{self.context.request_id}"
        return {"id": request_id, "object": kind, "created": int(time.time()), "model": model}

    def sentence(self, sentence: TranslatedText) -> bytes:
        first = b"" if self.texts else self._chunk({"role": "assistant", "content": ""})
        self.add(sentence)
        if self.batch is not None:
            return first
        return first + self._chunk({"content": sentence.text})

    def failed(self, error: dict[str, Any]) -> bytes:
        return _event(error)

    def done(self) -> bytes:
        end = self._chunk({}, "stop")
        if self.batch is not None:
            end = self._chunk({"content": self.content}) + end
        options = self.body.stream_options
        if options and options.include_usage:
            usage = {**self.head("chat.completion.chunk"), "choices": [], "usage": self.usage}
            end += _event(usage)
        return end + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _event({**self.head("chat.completion.chunk"), "choices": [choice]})


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


DIALECT = Dialect((router,), tasks={"/v1/chat/completions": "translate"}, error_shape=openai_shape)
