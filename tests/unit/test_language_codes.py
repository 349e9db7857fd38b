"""Language codes: spelling, match with an offered language, names, and the codes of checkpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoints.families.translation_folder import LANGUAGE_CODES
from model.checkpoints.languages import Sides, distinct_tags, sides_in, to_tag
from service.text import language_codes
from service.text.language_codes import (
    MAX_ACCEPT_ENTRIES,
    display_name,
    match_language,
    normalize_code,
)
from service.text.language_names import code_of
from tests.hf_files import transformers


@pytest.fixture(scope="module")
def nllb() -> list[str]:
    codes: list[str] = transformers().models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
    return codes


@pytest.mark.parametrize("is_nllb", [True, False], ids=["nllb-200", "m2m100"])
def test_every_code_of_a_model_has_a_tag_of_its_own(nllb: list[str], is_nllb: bool) -> None:
    codes = nllb if is_nllb else LANGUAGE_CODES["m2m100"]
    tags = distinct_tags(codes)
    assert tags.keys() == set(codes)
    assert len(set(tags.values())) == len(codes)
    for tag in tags.values():
        assert normalize_code(tag) == tag
    named = [tag for tag in tags.values() if display_name(tag) != tag]
    assert len(named) > 0.9 * len(codes)


@pytest.mark.parametrize(
    "codes", ["zho_Hans zho_Hant cmn_Hans cmn_Hant", "srp_Cyrl srp_Latn sr_Cyrl sr_Latn"]
)
def test_codes_of_the_same_tags_are_told_apart(codes: str) -> None:
    assert len(set(distinct_tags(codes.split()).values())) == 4


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
def test_script_is_named_where_it_does_not_go_without_saying(
    nllb: list[str], code: str, tag: str
) -> None:
    assert distinct_tags(nllb)[code] == tag


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
        ("opus-mt-en-ROMANCE", (["en"], "")),
        ("opus-mt-tc-big-en-zle", (["en"], "")),
        ("opus-mt-tc-bible-big-deu_eng_fra-roa", (["de", "en", "fr"], "")),
        ("deu_nld-eng", (["de", "nl"], "en")),
        ("de+en-fr+es", (["de", "en"], "")),
        ("opus-mt-en-de", (["en"], "de")),
        ("en-pt_br", (["en"], "pt-BR")),
        *((name, ([], "")) for name in ("mul-en", "opus-mt-ROMANCE-en", "zh_TW-en")),
        *((name, ([], "")) for name in ("my-model", "model", None)),
    ],
)
def test_languages_are_read_from_a_name(name: object, sides: Sides) -> None:
    assert sides_in(name) == sides


def test_offered_codes_are_read_once(nllb: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inexact code, such as every code of DeepL, once cost a look at 200 offered codes."""
    read: list[str] = []

    def counted(code: str) -> str:
        read.append(code)
        return normalize_code(code)

    monkeypatch.setattr(language_codes, "normalize_code", counted)
    offered = [*distinct_tags(nllb).values()]
    found = [match_language(code, offered) for code in ("EN", "PT-BR", "zh", "xx")]
    assert found == ["en", "pt", "zh-Hans", None]
    assert len(read) <= len(offered) + 4


ANY_TEXT = st.text(st.characters())  # with lone surrogates
HEADERS = ANY_TEXT | st.text("enptfrxq-_*;=,.0123 \t", max_size=60)


@pytest.mark.parametrize(
    ("code", "canonical"),
    [
        ("en", "en"),
        (" EN\n", "en"),
        ("PT_br", "pt-BR"),
        ("pt-br", "pt-BR"),
        ("ZH_HANT_tw", "zh-Hant-TW"),
        ("es_419", "es-419"),
        ("SR-latn", "sr-Latn"),
        ("DE-1996", "de-1996"),
        ("ca-VALENCIA", "ca-valencia"),
        ("", ""),
        ("  ", ""),
        ("Ñ_x", "Ñ_x"),
        ("\ud800", "\ud800"),
    ],
)
def test_normalize_code(code: str, canonical: str) -> None:
    assert normalize_code(code) == canonical


@given(ANY_TEXT | st.text("aZ19-_ "))
def test_normalized_code_is_its_own_normal_form(code: str) -> None:
    assert normalize_code(normalize_code(code)) == normalize_code(code)


@pytest.mark.parametrize(
    ("code", "offered", "match"),
    [
        ("EN", ["en", "pt"], "en"),
        ("pt-BR", ["en", "pt", "pt-BR"], "pt-BR"),
        ("pt_br", ["en", "pt"], "pt"),
        ("zh-hant-tw", ["zh", "zh-Hant"], "zh-Hant"),
        ("pt", ["en", "pt-BR"], "pt-BR"),
        ("pt-PT", ["en", "pt-BR"], "pt-BR"),
        ("en_us", ["EN_US"], "EN_US"),
        ("en", ["en-US", "en-GB"], None),
        ("en-AU", ["en-US", "en-GB"], None),
        ("zh-Hans", ["zh-Hant"], None),
        ("zh-Hans", ["zh-Hans-CN"], "zh-Hans-CN"),
        ("zh-CN", ["zh-Hans"], "zh-Hans"),
        ("zh", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zh-CN", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zh_tw", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Latn", ["zh-Hans", "zh-Hant"], None),
        ("zh", ["zh-Hant", "zh-Hant-HK"], None),
        ("sr", ["sr-Latn", "sr-Cyrl"], "sr-Cyrl"),
        ("ZT", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zt", ["zh-Hans"], None),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("tl", ["fil"], "fil"),
        ("no", ["nb"], "nb"),
        ("nb", ["no"], "no"),
        ("no", ["en"], None),
        ("e", ["en"], None),
        ("eng", ["en"], None),
        ("auto", ["en"], None),
        ("", ["en", ""], None),
        ("-", ["en"], None),
        ("en", [], None),
        ("\ud800", ["en"], None),
        ("nb-NO", ["no"], "no"),
        ("no-NO", ["nb"], "nb"),
        ("iw-IL", ["he"], "he"),
        ("tl-PH", ["fil"], "fil"),
    ],
)
def test_match_language(code: str, offered: list[str], match: str | None) -> None:
    assert match_language(code, offered) == match


def test_code_longer_than_any_tag_does_not_match() -> None:
    assert match_language("en" + "-x" * 16, ["en"]) == "en"
    assert match_language("en" + "-x" * 100_000, ["en"]) is None


@given(ANY_TEXT)
def test_match_is_none_or_one_of_the_offered(code: str) -> None:
    assert match_language(code, ("en", "pt-BR")) in (None, "en", "pt-BR")


@pytest.mark.parametrize(
    ("code", "accept_language", "name"),
    [
        ("pt", None, "Portuguese"),
        ("PT_br", None, "Brazilian Portuguese"),
        ("pt-AO", "", "Portuguese (Angola)"),
        ("sr-Latn-RS", "en", "Serbian (Latin, Serbia)"),
        ("en-", None, "English"),
        ("en", "fr", "Anglais"),
        ("ka", "ka", "ქართული"),
        ("xx", "fr", "xx"),
        ("XX_yy", None, "xx-YY"),
        ("", None, ""),
        ("pt", "aa", "Portuguese"),
    ],
)
def test_display_name(code: str, accept_language: str | None, name: str) -> None:
    assert display_name(code, accept_language) == name


@pytest.mark.parametrize(
    ("accept_language", "name"),
    [
        ("de", "Englisch"),
        ("DE-at ; q=1.0 , fr", "Englisch"),
        ("fr;q=0.5, de;q=0.9, es", "Inglés"),
        ("fr;q=0.5,de;q=0.5", "Anglais"),
        ("zh-TW", "英文"),
        ("de-XX", "Englisch"),
        ("xx, qq-AA, de", "Englisch"),
        ("de;q=0, fr;q=0.1", "Anglais"),
        ("de;q=0", "English"),
        ("*", "English"),
        ("*;q=0.5, de;q=0.1", "Englisch"),
        ("de;q=2", "English"),
        ("de;q=nan,de;q=1e9,de;q=-1,fr;q=0.1", "Anglais"),
        ("../../etc/passwd, C, POSIX, root", "English"),
        (",;=\0\ud800é", "English"),
        ("d" * 100_000, "English"),
        ("," * (MAX_ACCEPT_ENTRIES - 1) + "de", "Englisch"),
        ("," * MAX_ACCEPT_ENTRIES + "de", "English"),
    ],
)
def test_accept_language_chooses_the_locale(accept_language: str, name: str) -> None:
    assert display_name("en", accept_language) == name


@given(code=ANY_TEXT, accept_language=HEADERS)
def test_display_name_never_raises(code: str, accept_language: str) -> None:
    assert isinstance(display_name(code, accept_language), str)
    assert display_name("en", accept_language) != "en"


OFFERED = ("en", "pt", "zh-Hans")


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("Portuguese", "português", "PORTUGUÊS", "葡萄牙语", "pt", "PT"), "pt"),
        (("Brazilian Portuguese", "Portuguese (Brazil)", "pt_br", "葡萄牙语（巴西）"), "pt-BR"),
        (("Simplified Chinese", "Chinese (Simplified)", "中文(简体)", "简体中文"), "zh-Hans"),
        (("Traditional Chinese", "Chinese (Traditional)", "中文(繁体)", "繁體中文"), "zh-Hant"),
        (("English (en)", "英语", " english "), "en"),
        (("German", "德语", "de"), "de"),  # not offered
        (("gpt", "xx", "auto", "", "the text", "Deutsch", "()", "Portuguese" + 91 * " "), None),
    ],
)
def test_name_has_the_code(names: tuple[str, ...], code: str | None) -> None:
    assert {name: code_of(name, OFFERED) for name in names} == dict.fromkeys(names, code)
