"""What batches hand out: arrays of other packages, which share the same memory where these packages can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._millstream import dlpack


def converter(arrays: str | Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """The function that makes what `arrays` names of a `millstream.Array`; None if nothing is to be made."""
    if arrays is None or callable(arrays):
        return arrays
    if arrays == "numpy":
        import numpy

        return numpy.asarray
    if arrays == "torch":
        from torch.utils import dlpack

        convert: Callable[[Any], Any] = dlpack.from_dlpack
        return convert
    if arrays == "jax":
        return _for_jax
    raise ValueError(f'arrays must be None, "numpy", "torch", "jax" or a function, not {arrays!r}')


class _Shared:
    """An array for a library that asks for DLPack before version 1, which has no read-only memory, but never writes."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, *, stream: object = None) -> object:
        return dlpack(self._array, False)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device


def _for_jax(array: Any) -> Any:
    """JAX has no views: what skips the ends of rows, as inputs and targets do, is copied."""
    import jax  # type: ignore[import-not-found, unused-ignore]

    if memoryview(array).contiguous:
        return jax.numpy.from_dlpack(_Shared(array))
    return jax.numpy.asarray(memoryview(array))
