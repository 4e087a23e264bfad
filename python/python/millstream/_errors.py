"""What goes wrong, split by what you can do about it: as in Rust, with the same texts."""

from __future__ import annotations

import json
from typing import Any


class Error(Exception):
    """Anything that goes wrong between a config and a batch."""

    kind: str = "error"
    """The kind of the error, as the program's `--json` has it."""
    fields: dict[str, Any] = {}
    """What is known of it by name."""

    @property
    def path(self) -> str | None:
        """The file, if it is about one."""
        return self.fields.get("path")

    @property
    def line(self) -> int | None:
        """The line in the file, from 1."""
        return self.fields.get("line")

    @property
    def byte(self) -> int | None:
        """The byte in the file, from 0. None for tables and tokens: see `fields["row"]` and `fields["token"]`."""
        return self.fields.get("byte")

    @property
    def key(self) -> str | None:
        """The config's key, if it is about one."""
        return self.fields.get("key")

    @property
    def problem(self) -> str | None:
        """What is wrong, without the place."""
        return self.fields.get("problem")

    @property
    def remedy(self) -> str | None:
        """What to do."""
        return self.fields.get("remedy")

    def __reduce__(self) -> tuple[Any, ...]:
        return (make, (self.kind, str(self), json.dumps(self.fields)))


class ConfigError(Error, ValueError):
    """A setting is wrong. Change the config."""


class CorpusError(Error):
    """There is nothing to read. Change the paths, or put files there."""


class DocumentError(Error, ValueError):
    """One document cannot be used. Fix the file, or allow skipping."""


class IoError(Error, OSError):
    """The operating system refused. Check the file."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class BusyError(Error):
    """Another process writes to the directory."""


class TokenizerError(Error, ValueError):
    """The tokenizer cannot be loaded, learned or run."""


class FingerprintError(Error, ValueError):
    """A cursor does not match the order of this run: the field and both values are in `fields`."""


class CursorError(Error, ValueError):
    """A cursor cannot be read, does not exist in this corpus, or does not fit together with others."""


class BudgetError(Error, MemoryError):
    """The memory budget is smaller than what must be held at once. Raise `pipeline.memory`."""


class ThreadsError(Error):
    """The system refuses threads."""


class StageError(Error):
    """A stage, yours or a built-in one, failed. What your function raised is the cause (`__cause__`).

    A function that fails on a document of a file is a `DocumentError` instead, which names the document.
    """


class VerifyError(Error):
    """`verify` cannot tell whether the laws hold: a child process failed on its own."""


class ForkError(Error):
    """The loader was opened before `fork()`, and is used after it."""


CLASSES: dict[str, type[Error]] = {
    "config": ConfigError,
    "corpus": CorpusError,
    "document": DocumentError,
    "io": IoError,
    "busy": BusyError,
    "tokenizer": TokenizerError,
    "fingerprint": FingerprintError,
    "cursor": CursorError,
    "resume": CursorError,
    "merge": CursorError,
    "budget": BudgetError,
    "threads": ThreadsError,
    "panic": StageError,
    "stage": StageError,
    "verify": VerifyError,
    "fork": ForkError,
}


def make(kind: str, message: str, fields: str) -> Error:
    """The exception of a kind. The native part calls this."""
    error = CLASSES.get(kind, Error)(message)
    error.kind = kind
    error.fields = json.loads(fields)
    if isinstance(error, OSError):
        error.errno = error.fields.get("os_error")
    return error
