"""The log of every process of the server: its format and its levels.

Control characters in a message are escaped, and the lines of a traceback are indented. A name that
a client sends, such as the name of a model, therefore cannot look like a log line.
"""

import json
import logging
import os
import re
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

from service.errors import Fault, fault

logger = logging.getLogger("regard")

LogFormat = Literal["text", "json"]

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that end a line, control a terminal, or change the direction of the text."""

INDENT = "    | "


def escaped(text: str) -> str:
    r"""Returns a text whose control characters are written as escapes, such as `\x1b`."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(" ", "milliseconds")
        message, trace = parts_of(self, record)
        lines = [f"{time} {record.levelname} {record.name}: {escaped(message)}"]
        lines += [INDENT + escaped(line) for line in trace]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message, trace = parts_of(self, record)
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": message,
        }
        if request_id := getattr(record, "request_id", ""):
            fields["request_id"] = request_id
        if trace:
            fields["trace"] = trace
        return json.dumps(fields)


def parts_of(formatter: logging.Formatter, record: logging.LogRecord) -> tuple[str, list[str]]:
    args = record.args if isinstance(record.args, tuple) else ()
    faults = [arg for arg in args if isinstance(arg, Fault)]
    if not faults:
        trace = formatter.formatException(record.exc_info).split("\n") if record.exc_info else []
        return record.getMessage(), trace
    shown = tuple(arg.kind if isinstance(arg, Fault) else arg for arg in args)
    return record.msg % shown, [line for fault in faults for line in fault.frames]


def environment_format() -> LogFormat:  # for errors before the settings have been read
    return "json" if os.environ.get("REGARD_LOG_FORMAT") == "json" else "text"


def is_json() -> bool:
    return any(isinstance(each.formatter, JsonFormatter) for each in logging.getLogger().handlers)


def configure(level: str, log_format: LogFormat) -> None:
    """Sends the records of this process to stderr, from `level` upwards.

    In JSON, warnings and the errors that end a thread or the process are records too.
    """
    logging.basicConfig(level=level.upper(), handlers=[_handler(log_format)], force=True)
    if log_format == "json":
        logging.captureWarnings(True)
        sys.excepthook = _log_end
        threading.excepthook = _log_thread


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logger.critical("an error ends the process", exc_info=(kind, error, trace))


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if isinstance(args.exc_value, Exception):
        logger.error("a thread failed: %s", fault(args.exc_value))


def configure_own(level: str, log_format: LogFormat) -> None:
    """Sends the server's own records to stderr, in a process of another program."""
    logger.handlers, logger.propagate = [_handler(log_format)], False
    logger.setLevel(level.upper())


def _handler(log_format: LogFormat) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    return handler
