"""Describes the settings and the files of the models. Keys and other secrets are left out."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from model.errors import ModelError
from service.models.registry.cache import ModelCache
from service.models.registry.describe import describe, files_of
from service.models.registry.errors import RegistryError
from service.models.registry.locate import broken_pins, missing_files, place_of
from service.models.registry.manifest import ModelEntry, read_entries
from service.models.registry.references import Source
from service.settings import Settings
from service.state.database import Database

USER_OF_URL = re.compile(r"(?<=//)[^/?#\s]*@")
"""Matches the user name and the password before the host name in a URL."""

TRACE_VARIABLES = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    *("OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"),
)

Facts = dict[str, Any]


def public(text: str) -> str:
    """Returns a text without user names and passwords of URLs, and with `~` for the home folder."""
    home = str(Path.home())
    text = USER_OF_URL.sub("***@", text)
    return text.replace(home, "~") if len(home) > 1 else text


def changed_settings(settings: Settings, environment: Mapping[str, str]) -> Facts:
    """Returns the settings that differ from their defaults, and the variables that control traces.

    Secret values, such as API keys, are replaced by `set`.
    """
    found: Facts = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.default:
            found[f"REGARD_{name.upper()}"] = shown(value)
    names = [name for name in TRACE_VARIABLES if environment.get(name)]
    return {**found, **{name: public(environment[name]) for name in names}}


def shown(value: Any) -> Any:
    """Returns the value of a setting for the report."""
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, tuple):
        return [public(str(each)) for each in value]
    return public(value) if isinstance(value, str) else value


def models(settings: Settings) -> list[Facts]:
    """Describes each model of the settings: its files with their checksums, or its fault."""
    cache = ModelCache.at(settings.model_cache)
    try:
        entries = read_entries(settings.models)
    except RegistryError as error:
        return [{"fault": public(str(error))}]
    return [describe_entry(entry, cache) for entry in entries]


def state(settings: Settings) -> Facts:
    """Describes the file of glossaries, suggestions and usage, without creating or renaming it."""
    database = Database(settings.state, is_observer=True)
    facts: Facts = {"folder": public(str(database.folder))}
    if fault := database.fault():
        return {**facts, "fault": f"the state cannot be used, because {fault}"}
    return {**facts, "bytes": database.path.stat().st_size if database.path.exists() else 0}


def describe_entry(entry: ModelEntry, cache: ModelCache) -> Facts:
    """Returns the description of one model."""
    facts: Facts = {"reference": public(str(entry.reference))}
    options = {"device": entry.device, "dtype": entry.dtype}
    facts |= {name: value for name, value in options.items() if value}
    if entry.reference.source is Source.OPENAI:
        return {**facts, "about": "remote"}
    try:
        faults = missing_files(entry, cache) or broken_pins(entry, cache)
        if faults:
            return {**facts, "fault": public("; ".join(faults))}
        located = place_of(entry, cache)
        files = [
            {"name": file.name, "bytes": file.size, "sha256": file.sha256}
            for file in files_of(located)
        ]
        return {**facts, "about": public(describe(located.place)), "files": files}
    except (RegistryError, ModelError, OSError) as error:
        return {**facts, "fault": public(str(error))}
