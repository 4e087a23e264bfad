"""What batches hand out: arrays of other packages, which share the same memory where these packages can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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


def _for_jax(array: Any) -> Any:
    """JAX has no views: what skips the ends of rows, as inputs and targets do, is copied."""
    import jax  # type: ignore[import-not-found, unused-ignore]

    return jax.numpy.from_dlpack(array) if memoryview(array).contiguous else jax.numpy.asarray(memoryview(array))
