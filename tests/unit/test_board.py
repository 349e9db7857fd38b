"""The Grafana dashboard is written from its description."""

from typing import Any

import pytest
import yaml

from checks.board import BOARD, DESCRIPTION, panel, panels, render


def entry(**changes: Any) -> dict[str, Any]:
    return {"title": "Rows", "about": "Rows in use.", "queries": {"rows": "sum(x)"}, **changes}


def test_written_board_is_the_described_one() -> None:
    """After an edit of board.yml: python -m checks.board."""
    assert render(yaml.safe_load(DESCRIPTION.read_text("utf-8"))) == BOARD.read_text("utf-8")


def test_panels_flow_from_left_to_right_and_wrap() -> None:
    row = {"row": "First", "panels": [entry(width=12), entry(width=12), entry(width=6)]}
    found = [each["gridPos"] for each in panels([row, {"row": "Second", "panels": [entry()]}])]
    assert [(place["x"], place["y"]) for place in found] == [
        (0, 0),  # the title of the first row
        (0, 1),
        (12, 1),
        (0, 9),
        (0, 17),  # the title of the second row
        (0, 18),
    ]


def test_placeholders_and_quantiles_are_filled_in() -> None:
    found = panel(entry(queries=None, quantiles="h_bucket{$scope}"))["targets"]
    assert [target["legendFormat"] for target in found] == ["p50", "p95", "p99"]
    assert found[0]["expr"] == (
        'histogram_quantile(0.5, sum by (le) (rate(h_bucket{task=~"$task",model=~"$model"}'
        "[$__rate_interval])))"
    )


def test_exemplars_are_asked_for_where_the_description_says_so() -> None:
    assert panel(entry(exemplars=True))["targets"][0]["exemplar"] is True
    assert "exemplar" not in panel(entry())["targets"][0]


@pytest.mark.parametrize("wrong", [{"kind": "pie"}, {"colour": "red"}])
def test_mistyped_description_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="Rows has the"):
        panel(entry(**wrong))
