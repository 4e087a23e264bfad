"""Exact, resumable streams from text to training batches.

    import millstream

    loader = millstream.Loader("config.toml", arrays="torch", dtype="int64")
    for batch in loader:
        loss = cross_entropy(model(batch.inputs)[batch.loss_mask], batch.targets[batch.loss_mask])
        checkpoint["data"] = batch.cursor
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _platform as _platform  # Refuses what is not supported, before anything else is imported.
from ._array import Array
from ._errors import (
    BudgetError,
    BusyError,
    ConfigError,
    CorpusError,
    CursorError,
    DocumentError,
    Error,
    FingerprintError,
    ForkError,
    IoError,
    StageError,
    ThreadsError,
    TokenizerError,
    VerifyError,
)
from ._loader import Loader
from ._millstream import Batch, Cursor, Piece, Tokenizer, __version__
from ._verify import Report, Run, verify

if TYPE_CHECKING:
    from . import torch as torch

__all__ = [
    "Array",
    "Batch",
    "BudgetError",
    "BusyError",
    "ConfigError",
    "CorpusError",
    "Cursor",
    "CursorError",
    "DocumentError",
    "Error",
    "FingerprintError",
    "ForkError",
    "IoError",
    "Loader",
    "Piece",
    "Report",
    "Run",
    "StageError",
    "ThreadsError",
    "Tokenizer",
    "TokenizerError",
    "VerifyError",
    "__version__",
    "verify",
]


def __getattr__(name: str) -> Any:
    """`millstream.torch`, which imports PyTorch, is imported when it is used first."""
    if name == "torch":
        import importlib

        return importlib.import_module(".torch", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
