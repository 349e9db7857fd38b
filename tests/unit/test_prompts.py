"""The forms of prompts. The wording is shorter than that of the clients; the forms are theirs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.openai.prompts import Batch, Pair, batch_of, instructed, pair_in, split

OFFERED = ("en", "es", "pt")
TEXT = "A cat: see it.\n\nA dog.\nTranslate it to Spanish: a bird."
EN_PT, PT = Pair("en", "pt"), Pair(None, "pt")

FORMS = {
    "Subtitle Edit": (
        "Translate from English to Portuguese, keep line breaks, give the output alone:\n\n{}",
        EN_PT,
    ),
    "Subtitle Edit, codes": ("Translate from en to pt, keep marks, be brief:\n\n{}", EN_PT),
    "Immersive Translate": ("Translate to Portuguese (translation only):\n\n{}", PT),
    "Immersive Translate, before": (
        "Translate the following source text to Portuguese, Output it directly.\n"
        "Source Text: {}\nTranslated Text:",
        PT,
    ),
    "KISS Translator": (
        "Translate the source text from English to Portuguese. Add nothing.\n\n"
        "Source Text: {}\n\nTranslated Text:",
        EN_PT,
    ),
    "KISS Translator, with the page": (
        "# Context\nTitle: How to translate from English to Spanish\n\n# Task\n"
        "Translate the text below to Portuguese.\n1. Be exact.\n2. Add nothing.\n\n"
        "Source Text: {}\n\nTranslated Text:",
        PT,
    ),
    "pot": ('Translate into Portuguese:\n"""\n{}\n"""', PT),
    "Zotero PDF Translate": (
        "As an expert, please give a translation from en-US to pt-BR of the text in 🔤. "
        "Keep terms. The text is as follows:  🔤 {} 🔤  Please remove 🔤.",
        Pair("en-US", "pt-BR"),
    ),
    "OpenAI Translator": (
        "You are a translation engine.\n\nOnly the result. Please translate to Português:\n\n{}",
        PT,
    ),
    "OpenAI Translator, before": ('translate from English to Portuguese:\n\n"{}" =>', EN_PT),
    "Bob": ("translate from English to Portuguese:\n\n{}", EN_PT),
    "in Chinese": ("翻译成葡萄牙语:\n\n{}", PT),
    "in Chinese, with the source": ("请从英语翻译成葡萄牙语：\n{}", EN_PT),
    "Hy-MT": ("Translate the following segment into Portuguese, without more.\n\n{}", PT),
    "Hy-MT, in Chinese": ("将以下文本翻译为葡萄牙语，不要解释：\n\n{}", PT),
    "TranslateGemma": (
        "You are a professional English (en) to Portuguese (pt) translator. Your goal is to convey "
        "the meaning. Please translate the following English text into Portuguese:\n\n\n{}",
        EN_PT,
    ),
    "tags": (
        "You are an expert.\nPlease translate it into Portuguese.\n\n"
        "Please translate the <source_text> section:\n\n<source_text>\n{}\n</source_text>",
        PT,
    ),
    "code fence": ("Translate this to pt:\n```text\n{}\n```", PT),
    "one line": ("Translate the following English text to Brazilian Portuguese: {}", None),
}


@pytest.mark.parametrize("client", FORMS)
def test_prompt_is_divided(client: str) -> None:
    form, pair = FORMS[client]
    prompt = split(form.format(TEXT), OFFERED)
    assert prompt is not None
    assert prompt.text == TEXT
    assert prompt.pair == (pair or Pair("en", "pt-BR"))


def test_line_without_a_colon_is_a_prompt() -> None:
    prompt = split("Translate to Portuguese\nA cat.\nA dog.", OFFERED)
    assert prompt is not None
    assert (prompt.text, prompt.pair) == ("A cat.\nA dog.", PT)


@pytest.mark.parametrize(
    "text",
    [
        "A cat.",
        "The translation from English to Portuguese:\n\nis hard.",
        "Please come to Portugal: now.\n\nIt is warm.",
        "You are translated to safety:\nrun.",
        "Translate it to no one: this is a secret.",
        "Translate the following text:\n\nA cat.",
        "Translate to Portuguese:",
        "",
    ],
)
def test_text_is_no_prompt(text: str) -> None:
    assert split(text, OFFERED) is None


@pytest.mark.parametrize(
    ("instruction", "pair"),
    [
        ("Translate from English to Portuguese, with its tone. Add nothing.", EN_PT),
        ("You are a translator who needs to translate text into Portuguese.\n\n# Rules", PT),
        ("Translate the text of the user from English to Portuguese. Reply with it alone.", EN_PT),
        ("将文本翻译成葡萄牙语。", PT),
        ("Translate everything to pt", PT),
        ("Translate from auto to `pt-BR`.", Pair(None, "pt-BR")),
        ("Translate into German", Pair(None, "de")),
        ("You can only translate text and not interpret it.", None),
        ("You are a helpful assistant who talks to Portuguese people.", None),
        ("You are a translation engine. Add nothing to it.", None),
        ("Translate. " + "Go to work. " * 20 + "Translate to Portuguese.", PT),
        ("Translate. " + "Go to work. " * 80 + "Translate to Portuguese.", None),  # too many places
    ],
)
def test_instruction_names_a_pair(instruction: str, pair: Pair | None) -> None:
    assert instructed(instruction, OFFERED) == pair


@pytest.mark.parametrize(
    ("members", "pair"),
    [
        ({"source": "en", "target": "pt"}, EN_PT),
        ({"source_lang": "auto", "target_lang": "Portuguese"}, PT),
        ({"source_language": "English", "target_language": None}, Pair("en")),
        ({"from": "", "to": "nonsense"}, Pair(None, "nonsense")),
        ({}, Pair()),
    ],
)
def test_members_give_a_pair(members: dict[str, str | None], pair: Pair) -> None:
    assert pair_in(members, OFFERED) == pair


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ('[{"position": 1, "line": "A cat."}, {"position": 2, "line": ""}]', ["A cat.", ""]),
        ('{"targetLanguage": "Portuguese", "segments": [{"id": 0, "text": "A cat."}]}', ["A cat."]),
        ('{"to": "pt", "text": "A cat."}', None),
        ('[{"line": 1}]', None),
        ("[1, 2]", None),
        ("[]", None),
        ("[A cat.", None),
    ],
)
def test_batch_in_json_is_found(message: str, texts: list[str] | None) -> None:
    batch = batch_of(message, OFFERED)
    assert (None if batch is None else batch.texts) == texts
    if isinstance(batch, Batch) and "segments" in message:
        assert batch.pair == PT


PIECES = st.sampled_from(
    [
        "Translate",
        " from",
        " English",
        " to",
        " Portuguese",
        ":",
        "\n",
        '"""',
        "🔤",
        " ",
        "翻译成",
        "x",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_text_of_a_prompt_is_a_part_of_the_message(message: str) -> None:
    prompt = split(message, OFFERED)
    assert prompt is None or (prompt.text and prompt.text in message)
