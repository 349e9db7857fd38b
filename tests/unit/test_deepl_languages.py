"""Language codes of DeepL's dialect: regions of targets, short codes of sources."""

import pytest

from service.api.deepl.routes import source_code, source_codes, target_codes
from tests.unit.test_catalog import catalog


@pytest.mark.parametrize(
    ("models", "sources", "targets"),
    [
        (["en-pt", "pt-en"], ["EN", "PT"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["en-de"], ["EN"], ["DE"]),
        (["en-pt-BR"], ["EN"], ["PT-BR"]),
        (["m: en pt pt-BR"], ["EN", "PT", "PT-BR"], ["EN-GB", "EN-US", "PT-BR", "PT-PT"]),
        (["m: de zh-Hans"], ["DE", "ZH"], ["DE", "ZH-HANS"]),
        (["m: de zh-Hans zh-Hant"], ["DE", "ZH", "ZH-HANT"], ["DE", "ZH-HANS", "ZH-HANT"]),
        ([], [], []),
    ],
)
def test_codes_are_those_of_deepl(
    models: list[str], sources: list[str], targets: list[str]
) -> None:
    found = catalog(*models)
    assert source_codes(found) == sources
    assert target_codes(found) == targets
    for code in (*sources, *targets):
        found.language(code)


def test_code_of_a_source_leads_back_to_it() -> None:
    found = catalog("m: de en pt pt-BR sr-Cyrl sr-Latn zh-Hans zh-Hant nb fil")
    for language in found.languages:
        assert found.language(source_code(language, found)) == language
