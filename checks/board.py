"""Writes the Grafana dashboard: `python -m checks.board`.

The dashboard is described in `deploy/grafana/board.yml`. This module adds the options of the panels
and their places. A test compares the written dashboard with its description.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
DESCRIPTION = FOLDER / "board.yml"
BOARD = FOLDER / "dashboards" / "regard.json"

COLUMNS = 24
DEFAULT_WIDTH = 8
HEIGHTS = {"stat": 4}
DEFAULT_HEIGHT = 8
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
PLACEHOLDERS = {"$scope": 'task=~"$task",model=~"$model"', "$interval": "$__rate_interval"}
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
HIDDEN_COLUMNS = ("Time", "Value", "__name__", "job")
KEYS = {
    *("title", "about", "kind", "unit", "width", "queries", "quantiles"),
    *("limit", "exemplars", "steps", "texts"),
}

Json = dict[str, Any]


def main() -> None:
    BOARD.write_text(render(yaml.safe_load(DESCRIPTION.read_text("utf-8"))), "utf-8")


def render(description: Mapping[str, Any]) -> str:
    board = {**description["dashboard"], "panels": [*panels(description["rows"])]}
    return json.dumps(board, indent=1) + "\n"


def panels(rows: list[Json]) -> Iterator[Json]:
    """Yields the titles of rows and their panels, from left to right and from top to bottom."""
    top = number = 0
    for row in rows:
        number += 1
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        title = {"title": row["row"], "gridPos": place, "collapsed": False, "panels": []}
        yield {"id": number, "type": "row", **title}
        top, left, height = top + 1, 0, 0
        for entry in row["panels"]:
            number += 1
            width = entry.get("width", DEFAULT_WIDTH)
            if left + width > COLUMNS:
                top, left, height = top + height, 0, 0
            panel_height = HEIGHTS.get(entry.get("kind", ""), DEFAULT_HEIGHT)
            place = {"h": panel_height, "w": width, "x": left, "y": top}
            yield {"id": number, **panel(entry), "gridPos": place}
            left, height = left + width, max(height, panel_height)
        top += height


def panel(entry: Json) -> Json:
    """Returns a panel without its place; raises a ValueError for an unknown key or kind."""
    unknown = set(entry) - KEYS
    if unknown:
        raise ValueError(f"{entry['title']} has the unknown keys {sorted(unknown)}")
    kind = entry.get("kind", "line")
    options = {"stat": stat, "table": table, "line": series, "area": series, "share": series}
    if kind not in options:
        raise ValueError(f"{entry['title']} has the kind {kind}; use one of {', '.join(options)}")
    return {
        "title": entry["title"],
        "description": entry["about"],
        "datasource": DATASOURCE,
        **options[kind](entry),
        "targets": [*targets(entry)],
    }


def targets(entry: Json) -> Iterator[Json]:
    for index, (legend, expression) in enumerate(expressions(entry).items()):
        name = chr(ord("A") + index)
        target: Json = {"refId": name, "datasource": DATASOURCE, "expr": expression}
        target["legendFormat"] = legend
        if entry.get("kind") == "table":
            target |= {"format": "table", "instant": True}
        if entry.get("exemplars"):
            target["exemplar"] = True
        yield target


def expressions(entry: Json) -> dict[str, str]:
    """Returns the queries of a panel by legend, with the placeholders filled in."""
    found = entry.get("queries") or {
        name: f"histogram_quantile({q}, sum by (le) (rate({entry['quantiles']}[$interval])))"
        for name, q in QUANTILES.items()
    }
    for name, text in PLACEHOLDERS.items():
        found = {legend: query.replace(name, text) for legend, query in found.items()}
    return found


def series(entry: Json) -> Json:
    is_stacked = entry.get("kind") == "area"
    custom = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 25 if is_stacked else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if is_stacked else "none", "group": "A"},
    }
    defaults: Json = {"unit": entry.get("unit", "none"), "custom": custom, "min": 0}
    if entry.get("kind") == "share":
        defaults |= {"unit": "percentunit", "max": 1}
    dashed = {
        "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
        "custom.fillOpacity": 0,
        "custom.stacking": {"mode": "none", "group": "B"},
    }
    limit = {
        "matcher": {"id": "byRegexp", "options": "limit"},
        "properties": [{"id": name, "value": value} for name, value in dashed.items()],
    }
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": [limit] if entry.get("limit") else []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def stat(entry: Json) -> Json:
    texts = {value: {"text": text} for value, text in entry.get("texts", {}).items()}
    steps = [{"color": color, "value": value} for color, value in entry["steps"].items()]
    defaults = {
        "unit": entry.get("unit", "none"),
        "mappings": [{"type": "value", "options": texts}] if texts else [],
        "color": {"mode": "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    return {
        "type": "stat",
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background" if len(steps) > 1 else "value",
            "graphMode": "none",
            "textMode": "auto",
        },
    }


def table(_entry: Json) -> Json:
    hidden = dict.fromkeys(HIDDEN_COLUMNS, True)
    return {
        "type": "table",
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {"showHeader": True},
        "transformations": [{"id": "organize", "options": {"excludeByName": hidden}}],
    }


if __name__ == "__main__":
    main()
