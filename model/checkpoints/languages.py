"""Language codes of checkpoints as BCP 47 tags. Without torch."""

import re
from collections.abc import Iterable, Mapping

from babel.core import get_global

# Families of languages (ISO 639-5), as models of many languages name their sides.
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
# opus-mt-tc-big-en-pt_br: a pair of codes at the end
PAIR = re.compile(
    r"(?:^|.*[-_])(?P<source>[a-z]{2,3}(?:_han[st])?)-(?P<target>[a-z]{2,3}(?:_[A-Za-z]{2,4})?)"
)
TARGET_TOKEN = re.compile(r">>(.+)<<")


def is_code(text: object) -> bool:
    """Whether something is spelled as a language's code (`en`, `zh_Hans`), and not a family's."""
    return isinstance(text, str) and CODE.fullmatch(text) is not None and text not in GROUPS


def to_tag(code: str) -> str:
    """The BCP 47 tag of a code: `fra` is `fr`, `cmn_Hans` is `zh-Hans`, `pt_br` is `pt-BR`.

    Codes of three letters give way to those of two where CLDR has one.
    """
    language, *rest = code.split("_")
    tag: str = get_global("language_aliases").get(language, language)
    return "-".join([tag.replace("_", "-"), *map(_cased, rest)])


def _cased(subtag: str) -> str:
    if len(subtag) == 2:
        return subtag.upper()
    return subtag.capitalize() if len(subtag) == 4 and subtag.isalpha() else subtag


def target_languages(pieces: Iterable[str]) -> dict[str, str]:
    """The tag of each target token (`>>fra<<`) of a vocabulary, by the token.

    Tokens that are spelled otherwise, and tags that a shorter token has already
    are left out: `>>fr<<` goes before `>>fra<<`.
    """
    found: dict[str, str] = {}
    for piece in sorted(pieces, key=lambda piece: (len(piece), piece)):
        named = TARGET_TOKEN.fullmatch(piece)
        if named and is_code(named[1]) and to_tag(named[1]) not in found.values():
            found[piece] = to_tag(named[1])
    return found


def pair_in(name: object) -> tuple[str, str] | None:
    """The tags of source and target at the end of a name (`opus-mt-en-de`); None without."""
    found = PAIR.fullmatch(name) if isinstance(name, str) else None
    return pair_of(found["source"], found["target"]) if found else None


def pair_of(source: object, target: object) -> tuple[str, str] | None:
    """The tags of two codes; None where one of them is none."""
    if not (is_code(source) and is_code(target)):
        return None
    return to_tag(str(source)), to_tag(str(target))


def choose_target(target: str, tokens: Mapping[str, str]) -> str | None:
    """The token for a target tag: its own, or the first of its variants (`zh-Hans` for `zh`)."""
    variants = [token for token, tag in tokens.items() if tag.partition("-")[0] == target]
    own = [token for token, tag in tokens.items() if tag == target]
    return next(iter([*own, *variants]), None)
