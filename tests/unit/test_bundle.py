"""Bundles of ES modules; tests/browser runs those of the page."""

import re

import pytest

from service.api.bundle import BundleError, bundle
from service.api.page import BUNDLES, FOLDER

MODULES = {
    "app.js": "import { one as first } from './common/one.js';\nfirst(import('./late/app.js'));\n",
    "common/one.js": "import * as two from './two.js';\nexport const one = two.two;\n",
    "common/two.js": "export async function* two() {}\nexport class Two {}\n// the end",
    "late/app.js": "import {\n  one,\n} from '../common/one.js';\nexport { one };\n",
    "late/more.js": "import { two } from '../common/two.js';\nexport function more() {}\n",
}


def names(text: str) -> list[str]:
    return re.findall(r"^\$modules\['([^']+)'\] =", text, re.MULTILINE)


def test_module_stands_after_the_modules_that_it_imports() -> None:
    text = bundle(MODULES, "app.js")
    assert names(text) == ["common/two.js", "common/one.js", "app.js"]
    assert "const { one: first } = $modules['common/one.js'];" in text
    assert "const two = $modules['common/two.js'];" in text
    assert "// the end\nreturn { two, Two };" in text
    assert re.findall(r"^(?:import|export)\b.*", text, re.MULTILINE) == [
        "export const {  } = $modules['app.js'];",
        "export { $modules };",
    ]


def test_second_bundle_takes_modules_of_the_first() -> None:
    text = bundle(MODULES, "late/more.js", "app.js")
    assert names(text) == ["late/more.js"]
    assert text.startswith("import { $modules } from './../app.js';")
    assert "export const { more } = $modules['late/more.js'];" in text


@pytest.mark.parametrize(
    "line",
    [
        "import './two.js';",
        "import two from './two.js';",
        "export default 1;",
        "export let two = 1;",
        "export { two };",
        "export * from './two.js';",
        "export const { two } = one;",
    ],
)
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(BundleError, match="one.js has a form that a bundle does not know"):
        bundle({"one.js": line, "two.js": ""}, "one.js")


def test_circles_and_late_loads_elsewhere_are_refused() -> None:
    circle = {f"{a}.js": f"import {{ x }} from './{b}.js';" for a, b in ("ab", "bc", "ca")}
    with pytest.raises(BundleError, match=r"each other: a.js > b.js > c.js > a.js"):
        bundle(circle, "a.js")
    late = MODULES | {"common/two.js": "const load = () => import('./three.js');"}
    with pytest.raises(BundleError, match=r"two.js loads a module later; only app.js may"):
        bundle(late, "app.js")


def test_page_has_each_module_in_one_bundle() -> None:
    """A module that runs twice would have two states."""
    texts = {p.relative_to(FOLDER).as_posix(): p.read_text("utf-8") for p in FOLDER.rglob("*.js")}
    whole = [entry for entry in BUNDLES if entry != "reference/app.js"]  # a page of its own
    found = [name for entry in whole for name in names(bundle(texts, entry, BUNDLES[entry]))]
    assert len(found) == len({*found})
    others = ("reference/", "strings/reference", "theme")
    assert {*found} >= {name for name in texts if not name.startswith(others)}
