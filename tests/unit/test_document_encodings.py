"""Documents are written in the encoding in which they were read."""

import codecs

import pytest

from service.documents.formats import read_document

CUE = "1\n00:00:01,000 --> 00:00:02,500\n"
TEXTS = {
    "cp1252": "Não sei o que você está fazendo aqui.\n“Il n’y a rien à l’été.”\n",
    "cp1250": "Nie wiem, co się stało w tym mieście. Zażółć gęślą jaźń.\n",
    "cp1251": "Жил-был мальчик. Он жил в маленьком доме у самой реки.\n",
    "cp1253": "Καλημέρα κόσμε, τι κάνεις σήμερα; Είμαι πολύ καλά.\n",
    "shift_jis": "これは日本語の字幕です。元気ですか。\n",
    "gb18030": "这是一个中文字幕。你好吗？今天天气很好。\n",
    "euc_kr": "안녕하세요. 이것은 한국어 자막입니다.\n",
}
MARKED = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


def rewrite(name: str, data: bytes, old: str, new: str) -> bytes:
    document = read_document(name, data)
    return document.write([text.replace(old, new) for text in document.texts()], "")


@pytest.mark.parametrize("name", ["a.srt", "a.txt", "a.md"])
@pytest.mark.parametrize("encoding", TEXTS)
def test_likely_encoding_is_kept(encoding: str, name: str) -> None:
    text = (CUE if name == "a.srt" else "") + TEXTS[encoding]
    data = text.encode(encoding)
    first = TEXTS[encoding].strip().split()[0]
    assert rewrite(name, data, first, "X") == text.replace(first, "X").encode(encoding)


@pytest.mark.parametrize("encoding", MARKED)
@pytest.mark.parametrize("name", ["a.srt", "a.vtt", "a.txt", "a.json", "a.html"])
def test_byte_order_mark_names_the_encoding(name: str, encoding: str) -> None:
    texts = {"a.srt": f"{CUE}Olá\n", "a.vtt": f"WEBVTT\n\n{CUE.replace(',', '.')}Olá\n"}
    text = texts.get(name, '["Olá"]' if name == "a.json" else "Olá")
    data = MARKED[encoding] + text.encode(encoding)
    assert rewrite(name, data, "Olá", "Привет").decode(encoding) == (
        "\ufeff" + text.replace("Olá", "Привет")
    )


DECLARED = [
    ("a.html", '<meta charset="windows-1252"><p>Olá</p>', "cp1252"),
    ("a.html", "<meta charset=iso-8859-1><p>Olá “x”</p>", "cp1252"),
    ("a.html", '<meta http-equiv=a content="text/html; charset=windows-1251"><p>Дом</p>', "cp1251"),
    ("a.html", "<meta charset=Shift_JIS><p>春夏</p>", "shift_jis"),
    ("a.html", "<meta charset=koi8-r><p>Дом</p>", "koi8_r"),
    ("a.xlf", '<?xml version="1.0" encoding="ISO-8859-2"?><xliff version="1.2"><file><trans-unit>'
     "<source>Zażółć</source></trans-unit></file></xliff>", "iso8859-2"),
    ("a.po", 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=ISO-8859-1\\n"\n\n'
     'msgid "Olá"\nmsgstr ""\n', "latin-1"),
    ("a.po", 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=KOI8-R\\n"\n\n'
     'msgid "Дом"\nmsgstr ""\n', "koi8_r"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "encoding"), DECLARED)
def test_declaration_names_the_encoding(name: str, text: str, encoding: str) -> None:
    document = read_document(name, text.encode(encoding))
    assert [each for each in document.texts() if each in text] == document.texts()
    document.write(document.texts(), "").decode(encoding)


@pytest.mark.parametrize("name", ["utf-16", "rot13", "base64", "none"])
def test_wrong_declaration_is_no_harm(name: str) -> None:
    page = f"<meta charset={name}><p>Hello</p>"
    assert rewrite("a.html", page.encode(), "Hello", "é").decode() == page.replace("Hello", "é")


def test_characters_outside_of_an_encoding() -> None:
    page = "<meta charset=windows-1252><p>Olá</p>".encode("cp1252")
    assert b"<p>&#1044;&#1086;&#1084;" in rewrite("a.html", page, "Olá", "Дом")
    subtitles = (CUE + TEXTS["cp1252"]).encode("cp1252")
    written = rewrite("a.srt", subtitles, "Não", "Дом")
    assert written.decode("utf-8-sig") == (CUE + TEXTS["cp1252"]).replace("Não", "Дом")
    assert written.startswith(codecs.BOM_UTF8)
    name, text, encoding = DECLARED[6]
    document = read_document(name, text.encode(encoding))
    assert document.write(["Дом"], "").decode() == text.replace("ISO-8859-1", "UTF-8").replace(
        'msgstr ""\n', 'msgstr "Дом"\n'
    ).replace('msgstr "Дом"\n"', 'msgstr ""\n"')
