"""The alerts read metrics that exist, link to a runbook, and are tested by promtool's cases.

`make alerts` runs promtool itself.
"""

import re
from typing import Any

import pytest

from .test_deploy import (
    PROMETHEUS,
    ROOT,
    alert_rules,
    exposed_names,
    load_yaml,
    metric_names,
)


def test_every_metric_in_an_alert_is_exposed() -> None:
    known = exposed_names()
    found = {rule["alert"]: metric_names(rule["expr"]) for rule in alert_rules()}
    assert all(found.values()), found
    assert {alert: names - known for alert, names in found.items() if names - known} == {}


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Regard")
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_alert_links_its_section_of_the_runbooks(rule: dict[str, Any]) -> None:
    name, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor == rule["alert"].lower()
    assert f"\n## {rule['alert']}\n\n**Meaning.**" in (ROOT / name).read_text("utf-8")


def test_runbooks_have_no_section_without_an_alert() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [r["alert"] for r in alert_rules()]


def test_every_alert_is_tested_firing_and_silent() -> None:
    """A new alert needs a case in alerts_test.yml or budget_test.yml, and an entry in `silent`."""
    files = [load_yaml(PROMETHEUS / f"{name}_test.yml") for name in ("alerts", "budget")]
    cases = [case for file in files for case in file["tests"]]
    silent = {each["alertname"] for case in cases for each in case.get("alert_rule_test", ())}
    samples = [
        sample["labels"]
        for case in cases
        for expression in case.get("promql_expr_test", ())
        for sample in expression["exp_samples"]
    ]
    firing = set(re.findall(r'alertname="(\w+)"', str(samples)))
    names = {rule["alert"] for rule in alert_rules()}
    assert (names - firing, names - silent) == (set(), set())


def test_alert_names_are_unique() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    assert len(names) == len(set(names))
