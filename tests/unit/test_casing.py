"""The case of a translation is that of its source."""

import pytest

from service.text.formatting import is_all_caps, is_title_case, sentence_case, with_case

PAIR = ("en", "pt")


@pytest.mark.parametrize("text", ["SAVE FILE", "OK", "ÁGUA!", "USB 3", "{0} DELETED", "СОХРАНИТЬ"])
def test_capitals_alone_are_all_caps(text: str) -> None:
    assert is_all_caps(text)


@pytest.mark.parametrize("text", ["", "12", "A", "X 5", "Save", "IDs", "5 kB", "使用 USB", "文件"])
def test_other_texts_are_not_all_caps(text: str) -> None:
    assert not is_all_caps(text)


@pytest.mark.parametrize(
    "text", ["Save File", "Terms of Service", "Save As...", "“Hello World”", "Are You Sure?"]
)
def test_title_case_leaves_small_words(text: str) -> None:
    assert is_title_case(text)


@pytest.mark.parametrize(
    "text",
    ["Save", "Save file", "I am Tom", "Now for Japan.", "of Service", "文件 名", "Go On " * 20],
)
def test_sentences_are_not_title_case(text: str) -> None:
    assert not is_title_case(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE ALL FILES", "Delete all files"),
        ("USB PORT", "USB port"),
        ("¡ÁGUA!", "¡Água!"),
        ("3 FILES", "3 Files"),
        ("OK", "OK"),
    ],
)
def test_model_gets_sentence_case(text: str, expected: str) -> None:
    assert sentence_case(text, "en", lambda word: word == "USB") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("KADIN", "Kadın"), ("İYİ GÜNLER", "İyi günler"), ("USB GİRİŞİ", "USB girişi")],
)
def test_model_gets_the_i_of_the_language(text: str, expected: str) -> None:
    assert sentence_case(text, "tr", lambda word: word == "USB") == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("SAVE FILE", "Salvar arquivo", "SALVAR ARQUIVO"),
        ("PAGE \U000f0000", "Página \U000f0000", "PÁGINA \U000f0000"),
        ("Save File", "Salvar arquivo", "Salvar Arquivo"),
        ("Drag and Drop", "Arrastar e soltar", "Arrastar e Soltar"),
        ("Log In", "Iniciar sessão", "Iniciar Sessão"),
        ("Save the file", "salvar o arquivo", "Salvar o arquivo"),
        ("save the file", "Salvar o arquivo", "salvar o arquivo"),
        ("(see below)", "(Ver abaixo)", "(ver abaixo)"),
        ("see X", "É X", "é X"),
        # No rule applies:
        ("brazil", "Brasil", "Brasil"),
        ("api key", "API", "API"),
        ("iPhone case", "Capa de iPhone", "Capa de iPhone"),
        ("Music app", "iTunes", "iTunes"),
        ("3 files", "Três arquivos", "Três arquivos"),
        ("\U000f0000 is here", "Aqui está \U000f0000", "Aqui está \U000f0000"),
        ("hello", "\U000f0000", "\U000f0000"),
        ("hello", "...", "..."),
        ("你好", "Olá", "Olá"),
        ("Hello", "你好", "你好"),
    ],
)
def test_translation_gets_the_case_of_its_source(
    source: str, translation: str, expected: str
) -> None:
    assert with_case(source, translation, PAIR) == expected


@pytest.mark.parametrize(
    ("languages", "source", "translation", "expected"),
    [
        (("en", "de"), "file", "Datei", "Datei"),
        (("de", "en"), "Neue Datei", "New file", "New file"),
        (("pt", "en"), "segunda-feira", "Monday", "Monday"),
        (("pt", "en"), "português", "Portuguese", "Portuguese"),
        (("pt", "en"), "eu concordo", "I agree", "I agree"),
        (("pt", "en"), "arquivo", "File", "file"),
        (("en", "tr"), "SIGN IN", "Giriş", "GİRİŞ"),
        (("en", "tr"), "good", "İyi", "iyi"),
        (("en", "az"), "light", "Işıq", "ışıq"),
        (("en", "tr"), "Log In", "Giriş izni", "Giriş İzni"),
        (("en", "pt-BR"), "save", "Salvar", "salvar"),
        (("en", "zz"), "save", "Salvar", "salvar"),
    ],
)
def test_languages_have_rules_of_their_own(
    languages: tuple[str, str], source: str, translation: str, expected: str
) -> None:
    assert with_case(source, translation, languages) == expected
