"""The loader: a config in, batches out."""

from __future__ import annotations

import atexit
import html
import json
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType, NoneType
from typing import Any, TypeVar

from . import _arrays, _errors, _ranks
from ._millstream import Batch, Config, Cursor, Opening, Progress, Stream, Tokenizer, close_all, forked
from ._millstream import open as open_stream
from ._tokenizer import Called, converted


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)

PathLike = str | os.PathLike[str]
Ranges = Sequence[tuple[int, int]]
# A text; or with what of it is learned from; or also with its special tokens.
Text = str | tuple[str, Ranges] | tuple[str, Ranges, Ranges]
Documents = Callable[[int, int], Iterable[Text]]
Self = TypeVar("Self", bound="Loader")


class Loader:
    """A stream of batches, made ahead of need by threads that do not hold the GIL.

    `config` is the path of a TOML, JSON or YAML file, or a dict of the same keys. Keyword arguments override its keys:
    `Loader("config.toml", pipeline={"batch_size": 8})`. A key that is `None` is unset. `settings` override all of these, as
    the program's `--set` does: `["pipeline.seq_len=512"]`.

    - `cursor`: where to go on; at the start if it is None.
    - `held_out`: read the documents that `pipeline.holdout` sets aside instead, once.
    - `dtype`: `"int32"`, or `"int64"`, made ahead in Rust: up to three batches on top of `pipeline.memory`.
    - `arrays`: what batches hand out: `None` for `millstream.Array`, `"numpy"`, `"torch"`, `"jax"`, or a function that
      makes something of an `Array`. They share memory, read-only but for PyTorch, which cannot tell; but JAX copies views
      (inputs, targets, segment_ids and position_ids) and what is not aligned to 64 bytes.
    - `tokenizer`: a dict of `[tokenizer]`, the path of a `tokenizer.json`, of its directory or of tiktoken's ranks, a
      `tokenizers.Tokenizer`, a fast tokenizer of transformers, a `tiktoken.Encoding`, or any function from a text to its
      ids. The last one is slow, and says so.

    Rank and world are those of `torch.distributed` or `jax.distributed` if one of them is initialised, or else those of
    the launcher's variables; the config's `pipeline.rank` and `pipeline.world` override both.

    A wrong config is an error here; files and tokenizer are opened by the first loop. A loader is one stream: a second
    loop goes on where the first one stopped. To begin again, make another loader. Leaving a loop, in whatever way, ends
    all threads and closes all files.
    """

    # The tokenizer that was opened last, and the process that did it.
    _opened: tuple[int, Tokenizer | None] = (0, None)

    def __init__(
        self,
        config: PathLike | Mapping[str, Any] | None = None,
        *,
        cursor: Cursor | None = None,
        held_out: bool = False,
        dtype: object = "int32",
        arrays: str | Callable[[Any], Any] | None = None,
        tokenizer: Any = None,
        settings: Iterable[str] = (),
        **tables: Any,
    ) -> None:
        file = os.fspath(config) if isinstance(config, (str, os.PathLike)) else None
        over: dict[str, Any] = dict(config) if isinstance(config, Mapping) else {}
        if cursor is not None and not isinstance(cursor, Cursor):
            raise TypeError(f"cursor is a millstream.Cursor, not {type(cursor).__name__}; Cursor.from_json reads a text")
        if config is not None and file is None and not isinstance(config, Mapping):
            raise TypeError(f"a config is a path or a dict, not {type(config).__name__}")
        if isinstance(tokenizer, (str, os.PathLike)):
            tables["tokenizer"] = _by_path(os.fspath(tokenizer))
        elif isinstance(tokenizer, Mapping):
            tables["tokenizer"] = tokenizer
        text = json.dumps(_merged(over, tables), default=_plain, allow_nan=False)
        self._config = Config(file, text, [settings] if isinstance(settings, str) else list(settings))
        if held_out and not self.config["pipeline"].get("holdout"):
            problem = "held_out=True needs it: set the share to hold out, such as 0.01"
            fields = {"key": "pipeline.holdout", "problem": problem}
            raise _errors.make("config", f"pipeline.holdout: {problem}", json.dumps(fields))
        given = tokenizer is None or isinstance(tokenizer, (str, os.PathLike, Mapping))
        self._tokenizer = None if given else converted(tokenizer)
        self._dtype = dtype_name(dtype)
        self._arrays = arrays
        self._convert = _arrays.converter(arrays)
        self._held_out = held_out
        self._stages: tuple[tuple[str, str, Callable[..., object]], ...] = ()
        self._documents: tuple[str, Documents] | None = None
        self._texts: list[str] | None = None
        self._source: dict[str, Any] | None = None
        self._world: tuple[int, int] | None = None
        self._start = cursor
        self._begin(cursor)

    def _begin(self, cursor: Cursor | None) -> None:
        self._progress = Progress(cursor)
        self._stream: weakref.ref[Stream] | None = None
        self._opening = threading.RLock()

    @classmethod
    def from_documents(
        cls: type[Self],
        documents: Documents,
        *,
        name: str | None = None,
        config: PathLike | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Self:
        """A loader over documents that you make. The config must have no `[[source]]`.

        `documents(lane, start)` returns the texts of one lane, from its document number `start` on: 0 unless the loader
        resumes. It is called once for each lane, on other threads. There is one lane, number 0, unless `pipeline.lanes` says
        more; each must give other documents, and ranks need as many lanes. With several ranks, end all of them after a fixed
        number of steps: they do not get the same number of batches. Documents are read once, whatever `pipeline.epochs` says:
        for more epochs, let the function go on. `name` is part of the order: a cursor is refused if it was made under another
        name, so name everything that the documents depend on.

        A document is a text, or a tuple `(text, learned)`: only those ranges of its characters, sorted pairs of begin and
        end, are learned from. `(text, learned, special)` also says which ranges are special tokens. The tokenizer puts no
        tokens around a document that is a tuple.
        """
        loader = cls(config, **arguments)
        loader._documents = (_name(documents, name), documents)
        return loader

    @classmethod
    def from_texts(
        cls: type[Self],
        texts: Iterable[str | Mapping[str, Any]],
        *,
        source: Mapping[str, Any] | None = None,
        config: PathLike | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Self:
        """A loader over texts in memory, one document each: for tests and small data. The config must have no `[[source]]`.

        `source` says what else than a text each of them is, with keys of a `[[source]]`: `{"field": "body"}` or `{"task":
        "chat", "chat": {"template": "chat.jinja"}}`. They are then records: JSON, or dicts. With `"task": "fim"` they are
        texts.
        """
        loader = cls(config, **arguments)
        if isinstance(texts, (str, bytes, Mapping)):
            raise TypeError(f"texts is a list of texts, not one {type(texts).__name__}")
        if source is not None:
            if not isinstance(source, Mapping):
                raise TypeError(f"source is a dict of keys of a [[source]], not {type(source).__name__}")
            for key in ("kind", "paths"):
                if key in source:
                    raise ValueError(f"source has {key!r}, and the texts are in memory; leave it out")
            loader._source = dict(source)
            _described(loader._source)
        loader._texts = [_text(text, source) for text in texts]
        return loader

    def map(
        self: Self, function: Callable[..., Text], *, name: str | None = None, marks: bool = False
    ) -> Self:
        """A loader in which `function(text)` replaces the text of each document.

        Other threads call it, one at a time, and hold the GIL for a group of documents. It must depend only on the text.
        If it raises, the loop raises an error that names the document, with that exception as its cause. `name` is part of the
        order: a cursor is refused if it was made under another name, so name everything that the function depends on. The
        default is where it is defined; lambdas, partials, objects that are called and methods of objects have none.

        Of a conversation only a part is learned from. Whoever changes its text must say what becomes of that: with
        `marks=True`, `function(text, learned, special)` also gets the ranges of characters that are learned from, and those
        that are special tokens, and returns all three.
        """
        return self._with_stage("map_marks" if marks else "map", function, name)

    def filter(self: Self, function: Callable[[str], object], *, name: str | None = None) -> Self:
        """A loader of the documents for which `function(text)` is true. See `map`."""
        return self._with_stage("filter", function, name)

    def _with_stage(self: Self, kind: str, function: Callable[..., object], name: str | None) -> Self:
        loader = self._copy()
        loader._stages = (*self._stages, (kind, _name(function, name), function))
        return loader

    def _copy(self: Self, **changes: Any) -> Self:
        loader = object.__new__(type(self))
        loader.__dict__.update(self.__dict__)
        loader.__dict__.update(changes)
        loader._begin(loader._start)
        return loader

    def _resumed(self: Self, cursor: Cursor | None) -> Self:
        """The same loader at another place."""
        return self._copy(_start=cursor)

    def _with_workers(self: Self, workers: int) -> Self:
        """The same loader with another number of workers, which changes nothing of what it gives."""
        text = json.dumps(_merged(self.config, {"pipeline": {"workers": workers}}))
        return self._copy(_config=Config(None, text, []))

    def _of_rank(self: Self, rank: int, world: int) -> Self:
        """The same loader as one of several ranks."""
        return self._copy(_world=(rank, world))

    def _names_rank(self) -> bool:
        """Whether the config says which of several processes this is."""
        pipeline = self.config["pipeline"]
        return pipeline.get("rank") is not None or pipeline.get("world") is not None

    def _open(self, opening: Opening | None = None) -> Stream:
        # Two threads share one stream.
        with self._opening:
            stream = self._stream() if self._stream else None
            if stream is None or stream.is_closed():
                world = self._world
                if world is None and not self._names_rank():
                    world = _ranks.connected()
                # What is a Python function belongs to its stream; threads of another process may hold its locks.
                process, opened = os.getpid(), None
                if self._opened[0] == process and not isinstance(self._tokenizer, Called):
                    opened = self._opened[1]
                stream = open_stream(
                    self._config,
                    self._progress,
                    cursor=self._progress.cursor,
                    held_out=self._held_out,
                    is_wide=self._dtype == "int64",
                    convert=self._convert,
                    stages=list(self._stages),
                    documents=self._documents,
                    texts=self._texts,
                    source=None if self._source is None else _described(self._source),
                    tokenizer=opened or self._tokenizer,
                    world=world,
                    opening=opening,
                )
                self._stream, self._opened = weakref.ref(stream), (process, self._progress.tokenizer)
            return stream

    def __iter__(self) -> Iterator[Batch]:
        return self._open()

    def __aiter__(self) -> AsyncIterator[Batch]:
        from ._awaited import Awaited  # Imports asyncio, which who reads with `for` need not wait for.

        return Awaited(self._open)

    def close(self) -> None:
        """Ends all threads, closes all files, and ends the loops that run. A later loop opens the loader again, where it
        stopped.
        """
        # One that is being opened by another thread is closed once it is open.
        with self._opening:
            stream = self._stream() if self._stream else None
        if stream is not None:
            stream.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cursor(self) -> Cursor | None:
        """Where to resume after the last batch that was handed out.

        Before the first batch it is where the loader starts: the given `cursor`, or None if the loader was never opened.
        """
        return self._progress.cursor

    @property
    def config(self) -> dict[str, Any]:
        """The config, with all keys."""
        config: dict[str, Any] = json.loads(self._config.to_json())
        return config

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that makes the ids. None if the loader was never opened."""
        return self._progress.tokenizer

    @property
    def meters(self) -> dict[str, Any]:
        """What every stage counted, how long it waited, and how long you waited. Empty if it was never opened.

        With `dtype="int64"`, the two batches that are converted ahead count as handed out.
        """
        meters = self._progress.meters()
        return {} if meters is None else dict(json.loads(meters[0]))

    @property
    def verdict(self) -> str:
        """Which stage you wait for, if you wait, and what to do."""
        meters = self._progress.meters()
        return "not opened yet" if meters is None else meters[1]

    def table(self) -> str:
        """The meters as a table, a line for each stage."""
        meters = self._progress.meters()
        return "" if meters is None else meters[2]

    def __repr__(self) -> str:
        cursor = self.cursor
        return f"<millstream.Loader {'not opened yet' if cursor is None else f'after batch {cursor.batch}'}>"

    def _repr_html_(self) -> str:
        said = html.escape(f"{self!r}\n{self.verdict}\n{self.table()}".rstrip())
        return f"<pre>{said}</pre>"

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_tokenizer", "_dtype", "_arrays", "_held_out", "_stages", "_documents", "_texts", "_source", "_world")
        state: dict[str, Any] = {name: self.__dict__[name] for name in kept}
        return {**state, "config": self._config.to_json(), "cursor": self.cursor}

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, cursor = state.pop("config"), state.pop("cursor")
        self.__dict__.update(state)
        self._config = Config(None, config, [])
        self._convert = _arrays.converter(self._arrays)
        self._start = cursor
        self._begin(cursor)


def _text(text: object, source: Mapping[str, Any] | None) -> str:
    if isinstance(text, Mapping):
        if source is None or not _are_records(source):
            raise TypeError('a text is a dict: say what it is, with source={"field": …} or source={"task": "chat", …}')
        return json.dumps(text)
    if not isinstance(text, str):
        raise TypeError(f"a text is a str or a dict, not {type(text).__name__}: {text!r}")
    return text


def _are_records(source: Mapping[str, Any]) -> bool:
    return "field" in source or source.get("task") in ("chat", "completion")


def _described(source: Mapping[str, Any]) -> Config:
    """A config with a source like this one, which needs neither files nor their kind."""
    like = {"kind": "jsonl" if _are_records(source) else "text", "paths": ["texts"], **source}
    return Config(None, json.dumps({"source": [like]}, default=_plain, allow_nan=False), [])


def _merged(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables key by key, and all else whole."""
    merged = dict(below)
    for key, value in over.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(under, value)
        else:
            merged[key] = value
    return merged


def _plain(value: object) -> object:
    """What JSON has no word for: paths, and numbers of other packages."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    item = getattr(value, "item", None)
    if item is not None:
        return item()
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"a config cannot hold a {type(value).__name__}: {value!r}")


def dtype_name(dtype: object) -> str:
    """`int32` or `int64`, whatever names it."""
    name = getattr(dtype, "__name__", None) or str(dtype).rsplit(".", 1)[-1]
    if name not in ("int32", "int64"):
        raise ValueError(f"dtype must be int32 or int64, not {dtype!r}")
    return name


def _by_path(path: str) -> dict[str, Any]:
    """The keys of `[tokenizer]` for a file or its directory, and nothing of another tokenizer that the config may have."""
    if os.path.isdir(path):
        path = os.path.join(path, "tokenizer.json")
    keys: dict[str, Any] = {"kind": "subwords", "path": path, "train": None}
    return {**keys, "pattern": None, "special": None} if path.endswith(".json") else keys


def _name(function: object, name: str | None) -> str:
    """What a function is called in the order: `name`, or else where it is defined."""
    if not callable(function):
        raise TypeError(f"expected a function, not {type(function).__name__}: {function!r}")
    if name is not None:
        if not isinstance(name, str):
            raise TypeError(f"name is a str, not {type(name).__name__}: {name!r}")
        return name
    called = getattr(function, "__qualname__", None)
    # A method is its object's, or its class's.
    owner = getattr(function, "__self__", None)
    if called is None or "<lambda>" in called or not isinstance(owner, (type, ModuleType, NoneType)):
        raise ValueError(
            f"{function!r} needs a name that says what it does: name=\"...\". Only that tells two lambdas, partials, objects "
            "or methods of objects apart when a run is resumed"
        )
    if isinstance(owner, type):
        return f"{owner.__module__}.{owner.__qualname__}.{called.rpartition('.')[2]}"
    return f"{getattr(function, '__module__', None) or ''}.{called}"
