"""Joins the ES modules of the page into bundles, because a browser waits for each file it loads.

A bundle is an ES module. In it, each module is a function that returns its exports, in the order in
which a browser would run the modules. Forms of import and export that the page does not use are
refused, and so are modules that import each other in a circle.
"""

import posixpath
import re

IMPORT = re.compile(r"^import (?:\* as (\w+)|\{([^}]*)\}) from '(\.[^']+)';$", re.MULTILINE)
EXPORT = re.compile(
    r"^export (?=(?:const|class|function\*?|async function\*?) (\w+))", re.MULTILINE
)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
LATER = re.compile(r"\bimport\(")
TYPES = re.compile(r"/\*\*.*?\*/", re.DOTALL)
"""Comments with types, in which `import(…)` names a module and loads nothing."""


class BundleError(Exception):
    """A module has a form of import or export that `bundle` does not know."""


def bundle(modules: dict[str, str], entry: str, base: str | None = None) -> str:
    """Returns the text of a bundle.

    Args:
        modules: The texts of all modules by their paths.
        entry: Path of the module to start with. It alone may load other modules later.
        base: Entry of another bundle, whose modules this bundle shares.
    """
    shared = [] if base is None else order(modules, base)
    own = [name for name in order(modules, entry) if name not in shared]
    for name in own:
        if name != entry and LATER.search(TYPES.sub("", modules[name])):
            raise BundleError(f"{name} loads a module later; only {entry} may do that")
    start = "const $modules = {};"
    if base is not None:
        path = posixpath.relpath(base, posixpath.dirname(entry))
        start = f"import {{ $modules }} from './{path}';"
    functions = [_function(name, modules[name]) for name in own]
    names = ", ".join(EXPORT.findall(modules[entry]))
    exports = f"export const {{ {names} }} = $modules['{entry}'];"
    return "\n".join([start, *functions, exports, "export { $modules };\n"])


def order(modules: dict[str, str], entry: str) -> list[str]:
    """Lists a module and all modules that it imports, each after the modules that it imports."""
    found: list[str] = []

    def visit(name: str, parents: tuple[str, ...]) -> None:
        if name in parents:
            raise BundleError(f"modules import each other: {' > '.join([*parents, name])}")
        if name in found:
            return
        for _, _, path in IMPORT.findall(modules[name]):
            visit(_resolved(name, path), (*parents, name))
        found.append(name)

    visit(entry, ())
    return found


def _resolved(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _function(name: str, text: str) -> str:
    def imported(found: re.Match[str]) -> str:
        whole, names, path = found.groups()
        taken = whole or "{" + re.sub(r"(\w+) as (\w+)", r"\1: \2", names) + "}"
        return f"const {taken} = $modules['{_resolved(name, path)}'];"

    names = EXPORT.findall(text)
    body = EXPORT.sub("", IMPORT.sub(imported, text))
    if (unknown := OTHER.search(body)) is not None:
        raise BundleError(f"{name} has a form that a bundle does not know: {unknown.group()}")
    return f"$modules['{name}'] = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();"
