from collections.abc import Callable, Sequence
from typing import Any, final

from typing_extensions import disjoint_base

__all__ = [
    "Batch",
    "Config",
    "Cursor",
    "Memory",
    "Opening",
    "Piece",
    "Progress",
    "Stream",
    "Tokenizer",
    "__version__",
    "close_all",
    "describe",
    "dlpack",
    "forked",
    "main",
    "open",
    "ranks_to_json",
    "verify",
]

__version__: str

@disjoint_base
class Memory:
    """Numbers by the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Batch:
    """Rows of ids, with where they came from and the cursor after them.

    Arrays are as `dtype` and `arrays` of the loader say. `ids`, `inputs` and `targets` share one piece of memory; the others
    are made each time you ask for them. A segment is the part of one document that lies in a row."""

    @property
    def ids(self) -> Any:
        """All ids, `[rows, seq_len + 1]`; with `pipeline.ahead = n`, `[rows, seq_len + n]`."""
    @property
    def inputs(self) -> Any:
        """The inputs, `[rows, seq_len]`: a view of the ids."""
    @property
    def targets(self) -> Any:
        """The targets, `[rows, seq_len]`: a view of the ids, one place later."""
    @property
    def segment_ids(self) -> Any:
        """The number of each input's segment in its row, from 1; 0 for padding. `[rows, seq_len]`."""
    @property
    def position_ids(self) -> Any:
        """The place of each input in its segment, from 0. `[rows, seq_len]`."""
    @property
    def _positions(self) -> Any:
        """The place of each id in its segment, of the shape of `ids`."""
    @property
    def loss_mask(self) -> Any:
        """Whether each input's target exists, is of the same document and is learned from. `[rows, seq_len]`."""
    @property
    def lengths(self) -> Any:
        """How many ids of each row count; the rest is padding. `[rows]`."""
    @property
    def cu_seqlens(self) -> Any:
        """Where the segments of all inputs begin, row after row, and where the last one ends, as variable-length attention
        takes them: padding at the end of a row is a segment too. `[segments + 1]`, int32."""
    @property
    def max_seqlen(self) -> int:
        """The length of the longest segment among the inputs."""
    @property
    def pieces(self) -> list[Piece]:
        """The runs of ids of one document each, by row and then by place."""
    @property
    def columns(self) -> dict[str, list[str | int | float | bool | None]]:
        """The columns that `source.columns` names: for each name a list with the value of each piece, in the order of
        `pieces`. A value is a `str`, `int`, `float`, `bool` or `None`, which is also that of a piece whose source has no such
        column."""
    @property
    def shape(self) -> tuple[int, int]:
        """The shape of `ids`: rows, and ids in each."""
    @property
    def tokens(self) -> int:
        """How many targets there are, without padding and what is not learned from."""
    @property
    def text_bytes(self) -> int:
        """The length of the text that the targets stand for, in bytes."""
    @property
    def number(self) -> int:
        """Its number in the stream, from 0."""
    @property
    def digest(self) -> str:
        """A digest of its shape, its ids, and what of them is not learned from: equal batches have equal digests."""
    @property
    def cursor(self) -> Cursor:
        """Where to resume after it."""

@final
class Piece:
    """A run of ids of one document in a row of a batch."""

    @property
    def row(self) -> int:
        """The row."""
    @property
    def start(self) -> int:
        """Where it begins in the row."""
    @property
    def stop(self) -> int:
        """Where it ends in the row, exclusive."""
    @property
    def offset(self) -> int:
        """The index of its first id in the document."""
    @property
    def path(self) -> str | None:
        """The path or URL of the document's file; `None` if it came from no file."""
    @property
    def line(self) -> int | None:
        """The line that the document begins on, from 1; `None` if it is unknown or the format has no lines. This may read
        the file."""
    @property
    def byte(self) -> int:
        """Where the document begins in its file, in `unit`."""
    @property
    def unit(self) -> str:
        """What `byte` counts: `byte`, `row` or `token`."""
    @property
    def columns(self) -> dict[str, str | int | float | bool | None]:
        """The columns of its document that `source.columns` names, by their names."""
    @property
    def source(self) -> int | None:
        """Which source of the config it came from, from 0; `None` if it came from no file."""

@final
class Cursor:
    """Where a run is: all that an exact resume needs."""

    @property
    def batch(self) -> int:
        """The number of batches before it."""
    @property
    def digest(self) -> str:
        """The running digest of all ids before it, over the lanes that it knows."""
    def ledger(self) -> dict[str | None, dict[str, int]]:
        """What became of all documents and ids before it, by source: "learned", "masked", "first", "cut" and so on. Ids in
        rows of padding, which no source made, are under None."""
    def ledger_by_value(self) -> dict[str, dict[str, dict[str, int]]]:
        """The same by source and by the values of the column that `pipeline.ledger_by` names; empty if it names none. What is
        skipped and padding are of no value."""
    def to_json(self) -> str:
        """The cursor as JSON, as `save` writes it."""
    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """The cursor of a text that `to_json` or `save` wrote."""
    def save(self, path: Any) -> None:
        """Writes it as JSON: the file is replaced as a whole or not at all."""
    @classmethod
    def load(cls, path: Any) -> Cursor:
        """Reads what `save` or the program wrote."""
    @classmethod
    def merge(cls, cursors: Sequence[Cursor]) -> Cursor:
        """One cursor from those that all ranks saved after the same batch."""

@final
class Tokenizer:
    """A tokenizer that makes the ids of a loader."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens around them."""
    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids. Ids that are not in the vocabulary are left out."""
    def id(self, token: str) -> int | None:
        """The id of a token by its exact spelling, special tokens included."""
    @property
    def json(self) -> str | None:
        """The text of a `tokenizer.json` that gives the same ids, if there is one."""

@final
class Config:
    """A config that has been checked, and where its keys are written."""

    def __new__(cls, file: Any, over: str, settings: Sequence[str]) -> Config: ...
    def to_json(self) -> str:
        """All keys, as JSON."""

@final
class Progress:
    """The last batch that was handed out, and the meters and the tokenizer of the last stream that was opened."""

    def __new__(cls, start: Cursor | None = None) -> Progress: ...
    @property
    def cursor(self) -> Cursor | None:
        """The cursor after the last batch that was handed out; before the first, where the stream begins, if that is known."""
    def meters(self) -> tuple[str, str, str] | None:
        """The meters as JSON, the verdict and the table, if a stream was opened."""
    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the last stream that was opened."""

@final
class Stream:
    """An open loader: an iterator of batches."""

    def __iter__(self) -> Stream: ...
    def __next__(self) -> Batch: ...
    def when_ready(self, ready: Callable[[], object]) -> None:
        """Calls `ready`, on another thread, once the next batch or the end is there, or the stream is closed. The batch stays
        there until it is taken."""
    def was_closed(self) -> bool:
        """Whether it was closed before its end."""
    def is_closed(self) -> bool:
        """Whether it has ended, or was closed."""
    def close(self) -> None:
        """Ends its threads and closes its files."""

@final
class Opening:
    """An opening that another thread may give up, until it is done."""

    def __new__(cls) -> Opening: ...
    def end(self) -> None:
        """Gives it up: opening raises an error soon."""

def open(
    config: Config,
    progress: Progress,
    *,
    cursor: Cursor | None,
    held_out: bool,
    is_wide: bool,
    convert: Callable[[Any], Any] | None,
    stages: Sequence[tuple[str, str, Callable[..., object]]],
    documents: tuple[str, Callable[[int, int], Any]] | None,
    texts: Sequence[str] | None,
    source: Config | None,
    tokenizer: object,
    world: tuple[int, int] | None,
    opening: Opening | None,
) -> Stream:
    """Opens a loader."""
def forked() -> None:
    """Says that this process was forked, and has none of the threads that were in Python functions."""
def close_all() -> None:
    """Ends all streams that are open: before Python itself ends. A thread that came back from a Python function later would
    find no interpreter, so this waits for them, for some time."""
def describe(array: object) -> tuple[list[int], list[int], str]:
    """The shape, the strides in bytes, and the kind of an array's elements."""
def dlpack(array: object, is_versioned: bool, copy: bytes | None = None) -> object:
    """A capsule of an array, for the consumer's version: of its memory, or of `copy`, its elements one after the other."""
def ranks_to_json(name: str, ranks: str, pattern: str, special: dict[str, int]) -> str:
    """The text of a `tokenizer.json` that gives the ids of tiktoken's ranks."""
def main(args: Sequence[str], command: Sequence[str]) -> int:
    """Runs the program and returns its exit code. `args` begins with its name; `command` starts it again."""
def verify(
    command: Sequence[str],
    *,
    batches: int,
    points: int,
    workers: Sequence[int],
    worlds: Sequence[int],
    seed: int | None,
    patience: float,
) -> tuple[str, str]:
    """Runs the plan, and returns its report as JSON and as a table."""
