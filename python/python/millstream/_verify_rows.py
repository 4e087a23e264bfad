"""Rows of any batch: what they are, a digest of each, and a name in words.

torch and numpy are used if the loader has imported them, and never imported.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ._millstream import Batch

SHOWN = 6
"""How many ids of a row its name has."""

SHOWN_TEXT = 40
"""How many characters of a text its name has."""

LIKELY = ("documents", "ids", "input_ids", "inputs", "tokens", "text")
"""The column that a row is named by, the likeliest first; without any of them, the first column."""


def rows_of(batch: Any) -> list[Any]:
    """The rows of a batch, for `millstream.Batch` and for what collate functions make.

    - Arrays and tensors: the first axis.
    - A dict: row i of all columns. A value that has no rows, such as a number, belongs to each row.
    - A tuple or list of arrays: row i of all of them. Any other list: its elements.

    What is none of these is one row, as is a dict or tuple whose columns have different numbers of rows. Then nothing
    is missed, but a difference is said of the whole batch.
    """
    rows = _rows(batch)
    return [batch] if rows is None else rows


def _rows(value: Any) -> list[Any] | None:
    """The rows of a value; None if it has none."""
    if isinstance(value, Batch):
        columns = zip(_documents(value), _rows(value.ids) or [], _rows(value.lengths) or [], strict=True)
        return [{"documents": documents, "ids": ids, "length": length} for documents, ids, length in columns]
    if isinstance(value, Mapping):
        return _across(dict(value))
    if isinstance(value, (list, tuple)):
        elements = list(value)
        if isinstance(value, list) and not any(map(_is_array, value)):
            return elements
        across = _across(dict(enumerate(elements)))
        if across is not None:
            return [tuple(row.values()) for row in across]
        is_columns = isinstance(value, tuple) and any(_rows(element) is not None for element in elements)
        return None if is_columns else elements
    if not _is_array(value):
        return None
    if _is_tensor(value):
        return list(value.unbind(0)) if value.dim() else None
    shaped = _as_numpy(value)
    if shaped is not None:
        return list(shaped) if shaped.ndim else None
    shaped = memoryview(value)
    return list(shaped.tolist()) if shaped.ndim else None


def _documents(batch: Batch) -> list[str]:
    """The documents of each row, by their files and lines."""
    named: list[list[str]] = [[] for _ in range(batch.shape[0])]
    for piece in batch.pieces:
        place = f":{piece.line}" if piece.line else f" ({piece.unit} {piece.byte})"
        named[piece.row].append("(no file)" if piece.path is None else f"{piece.path}{place}")
    return [", ".join(of_row) for of_row in named]


def _across(columns: dict[Any, Any]) -> list[dict[Any, Any]] | None:
    """Row i of all columns; None if they have none, or different numbers of them."""
    split = {key: _rows(column) for key, column in columns.items()}
    counts = {len(rows) for rows in split.values() if rows is not None}
    if len(counts) != 1:
        return None
    (count,) = counts
    picked = {key: [columns[key]] * count if rows is None else rows for key, rows in split.items()}
    return [{key: rows[number] for key, rows in picked.items()} for number in range(count)]


# What is an array, and of which library.


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    """Whether it is an array of any library, or shares its memory as one."""
    if isinstance(value, (str, bytes, bytearray)):
        return False
    if _is_tensor(value) or hasattr(value, "__array__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _as_numpy(value: Any) -> Any:
    """The value as numpy's array, if numpy is imported and the value is an array of numpy or of what knows it."""
    numpy = sys.modules.get("numpy")
    return numpy.asarray(value) if numpy is not None and hasattr(value, "__array__") else None


@dataclass(frozen=True)
class _Numbers:
    """Numbers, whatever they came in."""

    kind: str
    """`i`: as int64. `f`: as float64."""
    shape: tuple[int, ...]
    data: bytes

    def first(self, count: int) -> list[Any]:
        numbers = array("q" if self.kind == "i" else "d")
        numbers.frombytes(self.data[: 8 * count])
        return numbers.tolist()

    def __len__(self) -> int:
        return len(self.data) // 8


def _numbers(value: Any) -> _Numbers | None:
    """The numbers of an array, of a list of numbers, or of a number; None if it is anything else."""
    if isinstance(value, (bool, int, float)):
        flat = _flat([value])
        return None if flat is None else _Numbers(flat.kind, (), flat.data)
    if isinstance(value, (list, tuple)):
        return _flat(value)
    if not _is_array(value):
        return None
    if _is_tensor(value):
        return _of_tensor(value)
    shaped = _as_numpy(value)
    if shaped is not None:
        return _of_numpy(shaped)
    view = memoryview(value)
    one_by_one: Any = view.format
    flat = _flat(memoryview(view.tobytes()).cast(one_by_one).tolist())
    return None if flat is None else _Numbers(flat.kind, view.shape or (), flat.data)


def _flat(numbers: Sequence[Any]) -> _Numbers | None:
    try:
        if all(isinstance(number, int) for number in numbers):
            return _Numbers("i", (len(numbers),), array("q", numbers).tobytes())
        if all(isinstance(number, (int, float)) for number in numbers):
            return _Numbers("f", (len(numbers),), array("d", numbers).tobytes())
    except OverflowError:
        pass
    return None


def _of_tensor(tensor: Any) -> _Numbers:
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    kind, dtype = ("f", torch.float64) if tensor.is_floating_point() else ("i", torch.int64)
    wide = tensor.to(device="cpu", dtype=dtype).contiguous()
    data = ctypes.string_at(wide.data_ptr(), 8 * wide.numel()) if wide.numel() else b""
    return _Numbers(kind, tuple(wide.shape), data)


def _of_numpy(shaped: Any) -> _Numbers | None:
    kinds = {"b": "int64", "i": "int64", "u": "int64", "m": "int64", "M": "int64", "f": "float64", "c": "complex128"}
    dtype = kinds.get(shaped.dtype.kind)
    if dtype is None:
        return None
    return _Numbers("i" if dtype == "int64" else "f", shaped.shape, shaped.astype(dtype).tobytes())


# Digests and names of rows.


def digest_of(row: Any) -> str:
    """A digest of a row, in hexadecimal. It depends on the numbers, not on their type or library: a list of ids, an
    int32 tensor and an int64 array of the same ids have one digest. The order of a dict's keys does not matter."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher.update, row)
    return hasher.hexdigest()


def _feed(put: Callable[[bytes], None], value: Any) -> None:
    """Hands on bytes that no other value has."""

    def begin(tag: bytes, length: int) -> None:
        put(tag + struct.pack("<Q", length))

    numbers = _numbers(value)
    if numbers is not None:
        begin(numbers.kind.encode(), len(numbers.shape))
        put(struct.pack(f"<{len(numbers.shape)}Q", *numbers.shape))
        put(numbers.data)
    elif isinstance(value, (str, bytes, bytearray)):
        tag, data = (b"s", value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else (b"b", bytes(value))
        begin(tag, len(data))
        put(data)
    elif value is None:
        begin(b"0", 0)
    elif isinstance(value, Mapping):
        begin(b"d", len(value))
        for key in sorted(value, key=repr):
            _feed(put, key)
            _feed(put, value[key])
    elif isinstance(value, (list, tuple)):
        begin(b"l", len(value))
        for item in value:
            _feed(put, item)
    elif isinstance(value, int):
        _feed(put, ["int", str(value)])  # Wider than 64 bits.
    elif is_dataclass(value) and not isinstance(value, type):
        _feed(put, {field.name: getattr(value, field.name) for field in fields(value)})
    elif _is_array(value) and hasattr(value, "tolist"):
        _feed(put, value.tolist())
    else:
        raise TypeError(
            f"a row has a {type(value).__name__}, which cannot be compared; pass rows=, a function from a batch to "
            "a list of arrays, texts or numbers"
        )


def words_of(row: Any) -> str:
    """A row in a few words: its first ids, or the beginning of its text."""
    if isinstance(row, Mapping) and row:
        key = next((key for key in LIKELY if key in row), next(iter(row)))
        return str(row[key]) if key == "documents" else words_of(row[key])
    if isinstance(row, (str, bytes, bytearray)):
        text = row if isinstance(row, str) else bytes(row).decode("utf-8", "replace")
        return json.dumps(text[:SHOWN_TEXT], ensure_ascii=False) + ("…" if len(text) > SHOWN_TEXT else "")
    numbers = _numbers(row)
    if numbers is None:
        return words_of(row[0]) if isinstance(row, (list, tuple)) and row else f"a {type(row).__name__}"
    shown = " ".join(f"{number:g}" if numbers.kind == "f" else str(number) for number in numbers.first(SHOWN))
    if not numbers.shape:
        return shown
    kind = "ids" if numbers.kind == "i" else "numbers"
    return f"{kind} {shown}{' …' if len(numbers) > SHOWN else ''} ({len(numbers):,} {kind})"

