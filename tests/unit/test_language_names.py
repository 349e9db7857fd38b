"""The codes of languages by their names."""

import pytest

from service.text.language_names import code_of

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
