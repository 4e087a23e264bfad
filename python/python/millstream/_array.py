"""Arrays: numbers that Rust has made, which Python shares."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import Any

from ._millstream import Memory, describe, dlpack

CPU = (1, 0)


class Array(Memory):
    """Numbers in one or two dimensions, shared by the buffer protocol and by DLPack, read-only.

    `numpy.asarray(array)` and `torch.from_dlpack(array)` make an array or tensor of the same memory: nothing is copied. The
    memory is freed with the last of them. To write, ask for a copy: `numpy.array(array)`, `torch.from_dlpack(array,
    copy=True)`. PyTorch has no read-only tensors: what you write to one without a copy is seen by all that share its memory.

    Libraries that ask for DLPack before version 1, which cannot say that memory is read-only, get a copy. JAX is one of
    them: `arrays="jax"` of the loader copies less.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each dimension."""
        return tuple(describe(self)[0])

    @property
    def strides(self) -> tuple[int, ...]:
        """From one element to the next along each dimension, in bytes."""
        return tuple(describe(self)[1])

    @property
    def dtype(self) -> str:
        """`int32`, `int64` or `bool`."""
        return describe(self)[2]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def tolist(self) -> list[Any]:
        """The elements, as lists of Python's numbers."""
        return memoryview(self).tolist()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """`array[place]`, `array[first:last]` or `array[row, column]`, as `tolist()` has them: a row is a list of numbers."""
        view = memoryview(self)
        if isinstance(key, slice):
            return view[key].tolist()
        if isinstance(key, tuple):
            return view[key]
        place, count = index(key), len(self)
        if not -count <= place < count:
            raise IndexError(f"there is no {place} in an array of {count}")
        place %= count
        return view[place : place + 1].tolist()[0]

    def __iter__(self) -> Iterator[Any]:
        """The numbers, or the rows as lists of numbers."""
        return iter(self.tolist())

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if dl_device not in (None, CPU):
            raise BufferError("the array is in CPU memory; import it there, then copy it to the device")
        is_versioned = max_version is not None and max_version[0] >= 1
        if copy is False and not is_versioned:
            raise BufferError("the array is read-only, which DLPack can say since version 1; ask for max_version=(1, 0)")
        is_copied = copy or not is_versioned
        return dlpack(self, is_versioned, memoryview(self).tobytes() if is_copied else None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __repr__(self) -> str:
        return f"<millstream.Array {self.dtype} {list(self.shape)}>"
