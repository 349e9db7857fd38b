import inspect
import re

from model import errors
from model.errors import InputError, ModelError


def lines_of_tree() -> list[tuple[int, str]]:
    """(depth, name) for each line of the tree in the module's docstring."""
    lines = (inspect.getdoc(errors) or "").splitlines()
    found = [re.match(r"^([ │├└─]*)(\w+Error)\b", line) for line in lines]
    return [(len(match[1]) // 3, match[2]) for match in found if match]


def tree_of_classes(root: type[Exception], depth: int = 0) -> list[tuple[int, str]]:
    children = [line for c in root.__subclasses__() for line in tree_of_classes(c, depth + 1)]
    return [(depth, root.__name__), *children]


def test_the_docstring_draws_the_tree_that_is_there() -> None:
    assert lines_of_tree() == tree_of_classes(ModelError)


def test_an_input_error_is_no_checkpoint_error() -> None:
    assert not issubclass(InputError, errors.CheckpointError)
