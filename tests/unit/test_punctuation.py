"""The final punctuation of a translation is that of its source."""

import pytest

from service.text.formatting import with_ending, with_ordinals


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
    ],
)
def test_ending_is_replaced(source: str, translation: str, expected: str) -> None:
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
def test_marks_are_those_of_the_script(source: str, translation: str, expected: str) -> None:
    assert with_ending(source, translation) == expected


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
