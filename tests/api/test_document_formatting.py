"""Documents with formatted words: the translated words have the formatting of their sources."""

import pytest
from lxml import etree

from tests.api.servers import Server
from tests.api.test_translate_file import fetch, send
from tests.archives import docx, epub, members, odt, run
from tests.workers import until

BOLD, ITALIC = "<w:b/>", "<w:i/>"
REFERENCE = '<w:r><w:footnoteReference w:id="2"/></w:r>'
NOTE = (
    "<text:note><text:note-citation>1</text:note-citation><text:note-body>"
    "<text:p>Read it.</text:p></text:note-body></text:note>"
)


def translated(server: Server, name: str, data: bytes | str) -> bytes:
    return fetch(server, send(server, name, data)).content


def shown(xml: bytes | str) -> list[str]:
    """The runs of a document of Office: `b:` before bold words, `i:` before italic ones."""
    root = etree.fromstring(xml if isinstance(xml, bytes) else xml.encode())
    found = []
    for each in root.iter("{*}r"):
        text = "".join(t.text or "" for t in each.iter("{*}t"))
        is_link = etree.QName(each.getparent()).localname == "hyperlink"
        marks = [name for name in "bi" if any(True for _ in each.iter(f"{{*}}{name}"))]
        marks += ["a"] * is_link + ["note"] * any(True for _ in each.iter("{*}footnoteReference"))
        found.append(":".join([*marks, text]))
    return found


def word(server: Server, *content: str) -> list[str]:
    data = translated(server, "a.docx", docx(f"<w:p>{''.join(content)}</w:p>"))
    return shown(members(data)["word/document.xml"])


def test_formatted_words_of_word_documents_move(real_server: Server) -> None:
    car = (run("She bought a "), run("red", BOLD), run(" car yesterday."))
    assert word(real_server, *car) == ["Ela comprou um carro ", "b:vermelho", " ontem."]
    meeting = ("The meeting starts at ", "10:30", " on Monday, with ", "Anna", " and 25 people.")
    first, time, second, name, last = meeting
    found = word(
        real_server, run(first), run(time, BOLD), run(second), run(name, ITALIC), run(last)
    )
    assert found[1::2] == ["b:10:30", "i:Anna"]
    assert len(found) == 5


def test_footnotes_and_links_of_word_documents_stay(real_server: Server) -> None:
    note = (run("The rain"), REFERENCE, run(" did not stop until the evening."))
    assert word(real_server, *note) == ["A chuva", "note:", " não parou até a noite."]
    link = f"<w:hyperlink>{run('our website')}</w:hyperlink>"
    found = word(real_server, run("You can read more on "), link, run(" every day."))
    assert found == ["Você pode ler mais no ", "a:nosso site", " todos os dias."]


PAGE = "This is <b class=x>a <i>very</i> important</b> book. Type <code>print(1)</code> to see it."
TARGET = "Este é <b>um livro <i>muito</i> importante</b>."


def test_nested_elements_of_mixed_content_move(real_server: Server) -> None:
    data = translated(real_server, "a.epub", epub(one=f"<p>{PAGE.replace(' class=x', '')}</p>"))
    chapter = members(data)["OPS/text/one.xhtml"].decode()
    assert f"<p>{TARGET} Digite <code>print(1)</code> para" in chapter
    page = translated(real_server, "a.html", f"<p>{PAGE}\n<p>Second.").decode()
    assert page.startswith(
        f"<p>{TARGET.replace('<b>', '<b class=x>')} Digite <code>print(1)</code>"
    )
    span = '<text:span text:style-name="B">a <text:span text:style-name="I">very</text:span> '
    body = f"<text:p>This is {span}important</text:span> book.{NOTE} Then it rained.</text:p>"
    text = members(translated(real_server, "a.odt", odt(body)))["content.xml"].decode()
    assert f"{span.replace('a <', 'um livro <').replace('very', 'muito')}importante" in text
    assert NOTE.replace("Read it.", "Leia-o.") in text
    assert text.index("importante") < text.index("text:note") < text.index("choveu")


@pytest.mark.parametrize("source", ["PT", ""])
def test_tags_are_no_characters(real_server: Server, source: str) -> None:
    """Tags are neither counted nor taken for words of a language."""
    page = "O <b>tempo</b> hoje está muito <i>bonito</i>."
    form = {"target_lang": "EN-US", "source_lang": source}
    sent = real_server.post("/v2/document", files={"file": ("a.html", page)}, data=form).json()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    until(lambda: real_server.post(path, json=key).json()["status"] in ("done", "error"))
    state = real_server.post(path, json=key).json()
    assert state["billed_characters"] == len("O tempo hoje está muito bonito.")
    assert "weather" in real_server.post(f"{path}/result", data=key).text
