"""Codes of checkpoints, as the tags that /languages shows."""

import pytest
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from model.checkpoints.languages import Sides, distinct_tags, sides_in, to_tag
from service.text import language_codes
from service.text.language_codes import display_name, match_language, normalize_code


@pytest.mark.parametrize("codes", [NLLB, M2M100["m2m100"]], ids=["nllb-200", "m2m100"])
def test_every_code_of_a_model_has_a_tag_of_its_own(codes: list[str]) -> None:
    tags = distinct_tags(codes)
    assert tags.keys() == set(codes)
    assert len(set(tags.values())) == len(codes)
    for tag in tags.values():
        assert normalize_code(tag) == tag
    named = [tag for tag in tags.values() if display_name(tag) != tag]
    assert len(named) > 0.9 * len(codes)


@pytest.mark.parametrize("names", [("zho", "cmn"), ("srp", "sr")])
def test_codes_of_the_same_tags_are_told_apart(names: tuple[str, str]) -> None:
    scripts = {"zho": ("Hans", "Hant"), "srp": ("Cyrl", "Latn")}[names[0]]
    codes = [f"{name}_{script}" for name in names for script in scripts]
    assert len(set(distinct_tags(codes).values())) == len(codes)


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("eng_Latn", "en"),
        ("arb_Arab", "ar"),
        ("zho_Hans", "zh-Hans"),
        ("zho_Hant", "zh-Hant"),
        ("kor_Hang", "ko"),
        ("jpn_Jpan", "ja"),
        ("srp_Cyrl", "sr"),
        ("crh_Latn", "crh-Latn"),  # mostly written in Cyrillic
        ("pes_Arab", "fa"),
        ("prs_Arab", "fa-AF"),
        ("apc_Arab", "apc"),
        ("ajp_Arab", "ajp"),
        ("aka_Latn", "ak"),
        ("twi_Latn", "twi"),
        ("swh_Latn", "sw"),
    ],
)
def test_script_is_named_where_it_does_not_go_without_saying(code: str, tag: str) -> None:
    assert distinct_tags(NLLB)[code] == tag


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("hbs", "sr-Latn"),
        ("hbs_Cyrl", "sr-Cyrl"),
        ("hbs_Latn", "sr-Latn"),
        ("prs", "fa-AF"),
        ("prs_IR", "fa-IR"),
        ("zho_Hant_TW", "zh-Hant-TW"),
    ],
)
def test_script_or_region_of_a_code_goes_before_that_of_its_alias(code: str, tag: str) -> None:
    assert to_tag(code) == tag


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("opus-mt-en-ROMANCE", Sides(["en"], "")),
        ("opus-mt-tc-big-en-zle", Sides(["en"], "")),
        ("opus-mt-tc-bible-big-deu_eng_fra-roa", Sides(["de", "en", "fr"], "")),
        ("deu_nld-eng", Sides(["de", "nl"], "en")),
        ("de+en-fr+es", Sides(["de", "en"], "")),
        ("opus-mt-en-de", None),
        ("en-pt_br", None),
        ("mul-en", None),
        ("opus-mt-ROMANCE-en", None),
        ("my-model", None),
        ("model", None),
        (None, None),
    ],
)
def test_sides_of_more_than_one_pair_are_read_from_a_name(
    name: object, sides: Sides | None
) -> None:
    assert sides_in(name) == sides


def test_offered_codes_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inexact code, such as every code of DeepL, once cost a look at 200 offered codes."""
    read: list[str] = []

    def counted(code: str) -> str:
        read.append(code)
        return normalize_code(code)

    monkeypatch.setattr(language_codes, "normalize_code", counted)
    offered = [*distinct_tags(NLLB).values()]
    found = [match_language(code, offered) for code in ("EN", "PT-BR", "zh", "xx")]
    assert found == ["en", "pt", "zh-Hans", None]
    assert len(read) <= len(offered) + 4
