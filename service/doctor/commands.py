"""The command `regard doctor` prints the facts that a bug report needs."""

import json
import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from service.console import read_settings
from service.ipc.machine import require_linux

app = typer.Typer()

Facts = dict[str, Any]


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    with_test: Annotated[
        bool, typer.Option("--test/--no-test", help="start a server and translate a sentence")
    ] = True,
) -> None:
    """Print a report for an issue: versions, machine, settings without keys, models, state, a test.

    The exit status is 1 if a model, the state or the self-test has a fault.
    """
    require_linux()
    facts = report(with_test)
    typer.echo(json.dumps(facts, indent=1, ensure_ascii=False) if as_json else as_text(facts))
    if faults_of(facts):
        raise typer.Exit(1)


def report(with_test: bool) -> Facts:
    """Returns the facts of the report, grouped by section.

    Args:
        with_test: Whether to start a server, and to translate and embed a sentence with the local
            models.
    """
    # The module `machine` imports torch, which takes long. An import at the top of this file would
    # delay all other commands.
    from service.doctor import machine, setup
    from service.doctor.self_test import self_test

    settings = read_settings({})
    facts = {
        "versions": machine.versions(),
        "processor": machine.processor(),
        "native code": machine.native_code(),
        "gpus": machine.gpus(),
        "memory": machine.memory(),
        "limits": machine.limits(),
        "settings": setup.changed_settings(settings, os.environ),
        "models": setup.models(settings),
        "state": setup.state(settings),
    }
    return {**facts, "self-test": self_test()} if with_test else facts


def faults_of(facts: Facts) -> list[str]:
    """Returns the faults of the models, the state and the self-test."""
    checked = [*facts["models"], facts.get("state", {}), facts.get("self-test", {})]
    return [each["fault"] for each in checked if "fault" in each]


def as_text(facts: Facts) -> str:
    """Returns the report as indented text."""
    return "\n".join(line for name, value in facts.items() for line in lines_of(name, value, ""))


def lines_of(name: str, value: Any, indent: str) -> Iterator[str]:
    """Yields the lines of one entry. In a list of dicts, a dict without lists takes one line."""
    if isinstance(value, dict):
        yield f"{indent}{name}:"
        for key, each in value.items():
            yield from lines_of(key, each, indent + "  ")
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        yield f"{indent}{name}:"
        for each in value:
            if any(isinstance(inner, list) for inner in each.values()):
                yield from lines_of(f"- {next(iter(each.values()))}", each, indent + "  ")
            else:
                yield f"{indent}  - " + ", ".join(f"{key} {text}" for key, text in each.items())
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        yield f"{indent}{name}: {'none' if text in (None, '', []) else text}"
