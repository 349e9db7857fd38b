"""Converts language codes of checkpoints to BCP 47 tags. Does not import torch."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from babel.core import get_global

# Codes of language families (ISO 639-5). Names of multilingual models contain such codes.
GROUPS = frozenset(
    (
        "aav afa alg alv apa aqa aql art ath auf aus awd azc bad bai bat ber bih bnt btk cai cau "
        "cba ccn ccs cdc cdd cel cmc cpe cpf cpp crp csu cus day dmn dra egx esx euq fiu fox gem "
        "gme gmq gmw grk hmx hok hyx iir ijo inc ine ira iro itc jpx kar kdo khi kro map mkh mno "
        "mul mun myn nah nai ngf nic nub omq omv oto paa phi plf poz pqe pqw pra qwe roa sai sal "
        "sdv sem sgn sio sit sla smi son sqj ssa syd tai tbq trk tup tut tuw urj wak wen xgn xnd "
        "ypk zhx zle zls zlw znd"
    ).split()
)
CODE = re.compile(r"[a-z]{2,3}(?:_[A-Za-z0-9]{2,8})*")
# Matches names that end with a pair of codes, such as opus-mt-tc-big-en-pt_br.
PAIR = re.compile(
    r"(?:^|.*[-_])(?P<source>[a-z]{2,3}(?:_han[st])?)-(?P<target>[a-z]{2,3}(?:_[A-Za-z]{2,4})?)"
)
TARGET_TOKEN = re.compile(r">>(.+)<<")
LONG_CODE = re.compile(r"[a-z]{3}")
FAMILY = re.compile(r"[A-Z_]{2,}")  # such as ROMANCE or NORTH_EU
# Maps a script to the larger script that CLDR names instead: Kore includes Hang (Hangul) and Han.
INCLUDED = {"Hang": "Kore"}


@dataclass(frozen=True, slots=True)
class LanguageTokens:
    """The language tokens of a multilingual model, such as `>>fra<<`."""

    sources: Mapping[str, str]  # language tag to token, which may be empty
    targets: Mapping[str, str]  # language tag to token, which may be empty
    # Whether source and target each begin with the token of their own language (M2M100, NLLB-200).
    # If not, the source begins with the token of the target language (OPUS-MT, SMaLL-100).
    begins_target: bool = False

    @property
    def openings(self) -> Mapping[str, str]:
        return self.sources if self.begins_target else self.targets

    def before_source(self, source: str, target: str) -> str:
        return self.openings[source if self.begins_target else target]

    def before_target(self, target: str) -> str:
        return self.targets[target] if self.begins_target else ""


Translates = tuple[tuple[str, str] | None, LanguageTokens | None]
"""The pair that a model translates, and its language tokens.

The pair is None if the model has several pairs. The tokens are None if the model has one pair and
no language tokens.
"""


def is_code(text: object) -> bool:
    return isinstance(text, str) and CODE.fullmatch(text) is not None and text not in GROUPS


def to_tag(code: str) -> str:
    """Returns the BCP 47 tag of a code: `fr` for `fra`, `zh-Hans` for `cmn_Hans`.

    CLDR gives the two-letter code of a language, and may add a region or a script: `prs` (Dari)
    becomes `fa-AF`, and `hbs` becomes `sr-Latn`. A region or a script of the code itself is kept.
    """
    language, *rest = code.split("_")
    tag: str = get_global("language_aliases").get(language, language)
    name, *added = tag.split("_")
    subtags = [*map(_cased, rest)]
    subtags += [each for each in added if len(each) not in map(len, subtags)]
    # A script, which has four letters, stands before the region: `zh-Hant-TW`.
    return "-".join([name, *sorted(subtags, key=lambda each: len(each) != 4)])


def distinct_tags(codes: Iterable[str]) -> dict[str, str]:
    """Maps each code of one model to a tag. No two codes get the same tag.

    A tag names a script only if the model has several scripts of the language, or an unusual one.
    So `eng_Latn` becomes `en`, but `zho_Hans` and `zho_Hant` become `zh-Hans` and `zh-Hant`. If
    several codes stand for the same tag (`ajp`, `apc`), only one of them gets the tag. The others
    keep their spelling, without the script if it is not needed.
    """
    by_language: dict[str, list[str]] = defaultdict(list)
    for code in codes:
        by_language[_without_script(to_tag(code))].append(code)
    tags: dict[str, str] = {}
    for short, alike in by_language.items():
        is_one_script = len({_script(code) for code in alike}) == 1
        for code in sorted(alike, key=lambda code: _own_spelling(code) != short):
            tag = short if is_one_script and _is_likely(to_tag(code)) else to_tag(code)
            choices = (tag, _own_spelling(code), code.replace("_", "-"), code)
            tags[code] = next(each for each in choices if each not in tags.values())
    return tags


def _own_spelling(code: str) -> str:
    return _without_script(code.replace("_", "-"))


def _script(code: str) -> str:
    parts = code.replace("-", "_").split("_")[1:]
    return next((part for part in parts if len(part) == 4 and part.isalpha()), "")


def _without_script(tag: str) -> str:
    script = _script(tag)
    return tag.replace(f"-{script}", "") if script else tag


def _is_likely(tag: str) -> bool:
    language, script = tag.partition("-")[0], _script(tag)
    full = get_global("likely_subtags").get(language, "").split("_")
    likely = full[1] if len(full) == 3 else script
    return INCLUDED.get(script, script) in ("", likely)


def _cased(subtag: str) -> str:
    if len(subtag) == 2:
        return subtag.upper()
    return subtag.capitalize() if len(subtag) == 4 and subtag.isalpha() else subtag


def target_languages(pieces: Iterable[str]) -> dict[str, str]:
    """Maps tags to the target tokens of a vocabulary: `fr` to `>>fr<<`, and not to `>>fra<<`."""
    found: dict[str, str] = {}
    for piece in sorted(pieces, key=lambda piece: (len(piece), piece)):
        named = TARGET_TOKEN.fullmatch(piece)
        if named and is_code(named[1]):
            found.setdefault(to_tag(named[1]), piece)
    return found


def pair_in(name: object) -> tuple[str, str] | None:
    """Returns the tags of the pair at the end of a name, such as `opus-mt-en-de`."""
    found = PAIR.fullmatch(name) if isinstance(name, str) else None
    return pair_of(found["source"], found["target"]) if found else None


Sides = tuple[list[str], str]
"""Tags of the source languages, and of the target language.

The target is "" if the model has several, which its vocabulary lists. No sources: no languages.
"""


def sides_in(name: object) -> Sides:
    """Returns the languages at the end of the name of a model, such as `opus-mt-en-de`.

    `opus-mt-en-ROMANCE` translates from English. `opus-mt-tc-bible-big-deu_eng-roa` translates from
    German and English. The target of these two models is a family of languages. A family as the
    source names no language.
    """
    *_, source, target = ["", "", *name.split("-")] if isinstance(name, str) else ["", ""]
    sources, only = sides_of(source, target)
    if len(sources) > 1 or (sources and not only):
        return sources, only
    pair = pair_in(name)
    return ([pair[0]], pair[1]) if pair else ([], "")


def sides_of(source: object, target: object) -> Sides:
    sources, targets = _codes(source), _codes(target)
    is_family = isinstance(target, str) and (target in GROUPS or FAMILY.fullmatch(target))
    if not sources or not (targets or is_family):
        return [], ""
    return list(map(to_tag, sources)), to_tag(targets[0]) if len(targets) == 1 else ""


def _codes(text: object) -> list[str]:
    """Finds three codes in `deu_eng_fra`, two in `de+en`, none in `ROMANCE`."""
    if not isinstance(text, str):
        return []
    parts = text.split("+") if "+" in text else [text]
    if len(parts) == 1 and all(LONG_CODE.fullmatch(part) for part in text.split("_")):
        parts = text.split("_")
    return parts if all(map(is_code, parts)) else []


def pair_of(source: object, target: object) -> tuple[str, str] | None:
    if not (is_code(source) and is_code(target)):
        return None
    return to_tag(str(source)), to_tag(str(target))


def choose_target(target: str, tokens: Mapping[str, str]) -> str | None:
    """Returns the token of a language tag, or of its first variant, such as `zh-Hans` for `zh`."""
    variants = (token for tag, token in tokens.items() if tag.partition("-")[0] == target)
    return tokens[target] if target in tokens else next(variants, None)
