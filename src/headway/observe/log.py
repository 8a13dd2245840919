"""Log lines on stderr: JSON for machines, short words for a terminal. Never on the hot path."""

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

__all__ = ["configure_logging"]


class _Json(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and what `extra` brought."""

    _known = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((k, v) for k, v in vars(record).items() if k not in self._known)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class _Human(logging.Formatter):
    """Time of day, level where it matters, message."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = f"{at} {level}{record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def configure_logging(format_name: str, level: str, stream: TextIO | None = None) -> None:
    """Send headway's log lines to a stream.

    Args:
        format_name: `json`, `human`, or `auto`: human on a terminal.
        level: the least important level written.
        stream: stderr when None.
    """
    target = sys.stderr if stream is None else stream
    is_human = format_name == "human" or (format_name == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_Human() if is_human else _Json())
    root = logging.getLogger("headway")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
