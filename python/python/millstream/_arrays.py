"""What batches hand out: arrays of other packages that share the same memory."""

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
        import jax  # type: ignore[import-not-found, unused-ignore]

        made: Callable[[Any], Any] = jax.numpy.from_dlpack
        return made
    raise ValueError(f'arrays must be None, "numpy", "torch", "jax" or a function, not {arrays!r}')
