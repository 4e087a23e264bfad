"""Arrays: numbers that Rust has made, which Python shares."""

from __future__ import annotations

from typing import Any

from ._millstream import Memory, describe, dlpack, tolist

CPU = (1, 0)


class Array(Memory):
    """Numbers in one or two dimensions, shared by the buffer protocol and by DLPack.

    `numpy.asarray(array)` and `torch.from_dlpack(array)` make an array or tensor of the same memory: nothing is copied, and
    what you write is seen by all. The memory is freed with the last of them. `jax.numpy.from_dlpack(array)` takes only
    contiguous arrays: `ids`, `loss_mask`, `lengths` and `cu_seqlens`, not `inputs`, `targets`, `segment_ids` or
    `position_ids`.
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
        return tolist(self)

    def __len__(self) -> int:
        return self.shape[0]

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
        if copy:
            raise BufferError("copy=True is not supported; copy the result")
        return dlpack(self, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __repr__(self) -> str:
        return f"<millstream.Array {self.dtype} {list(self.shape)}>"
