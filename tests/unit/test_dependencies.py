import inspect
from collections.abc import Callable

import pytest

from service.api.services import get_context, get_services


@pytest.mark.parametrize("dependency", [get_context, get_services])
def test_dependency_is_not_taken_to_a_thread(dependency: Callable[..., object]) -> None:
    """Plain functions were, twice a request: that was a third of its cost."""
    assert inspect.iscoroutinefunction(dependency)
