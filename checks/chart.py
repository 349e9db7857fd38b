"""Writes the settings into the schema of the Helm chart: `python -m checks.chart`.

The chart passes the values below `settings` to the server as environment variables. Their names,
types and limits are taken from the settings of the server, so a wrong value is refused when the
chart is installed. Their descriptions are taken from docs/settings.md. A test compares the schema
with the settings.
"""

import json
import re
from pathlib import Path
from typing import Any

from service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "regard"
SCHEMA = CHART / "values.schema.json"

FIXED = {
    *("REGARD_PORT", "REGARD_ADMIN_PORT", "REGARD_ADMIN_HOST"),
    *("REGARD_MODELS", "REGARD_MODEL_CACHE", "REGARD_PULL", "REGARD_OFFLINE", "REGARD_STATE"),
    *("REGARD_API_KEYS", "REGARD_ADMIN_KEY", "REGARD_REMOTE_KEY"),
}
"""Settings that the chart sets itself, from other values or to fixed values."""

KEPT = (
    *("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "pattern"),
)
"""JSON Schema keywords that the chart copies from the schema of a setting."""

ROW = re.compile(r"^\| `(REGARD_\w+)` \|[^|]*\| (.+) \|$", re.MULTILINE)
"""Matches the name and the meaning of a setting in docs/settings.md."""

LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")

Json = dict[str, Any]


def main() -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    schema["properties"]["settings"]["properties"] = settings()
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n", "utf-8")


def settings() -> Json:
    fields = Settings.model_json_schema()["properties"]
    named = {f"REGARD_{field.upper()}": schema for field, schema in fields.items()}
    meanings = dict(ROW.findall((ROOT / "docs" / "settings.md").read_text("utf-8")))
    return {
        name: variable(schema, LINK.sub(r"\1", meanings[name]))
        for name, schema in named.items()
        if name not in FIXED
    }


def variable(schema: Json, description: str) -> Json:
    """Returns the schema of a variable, which holds a list as one string."""
    kept = {word: schema[word] for word in KEPT if word in schema}
    if schema.get("type") == "array":
        kept = {"type": "string"}
    return {**kept, "description": description}


if __name__ == "__main__":
    main()
