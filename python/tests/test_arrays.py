"""Arrays share the memory of a batch, and outlive it."""

from __future__ import annotations

import gc
import struct
import unittest.mock
from typing import Any

import numpy as np
import pytest

import millstream


def test_inputs_and_targets_are_views_of_one_array(config: dict[str, Any]) -> None:
    batch = next(iter(millstream.Loader(config)))
    ids, inputs, targets = (np.asarray(array) for array in (batch.ids, batch.inputs, batch.targets))
    assert ids.shape == batch.shape == (8, 65) and ids.dtype == np.int32
    assert np.array_equal(inputs, ids[:, :-1]) and np.array_equal(targets, ids[:, 1:])
    assert np.shares_memory(inputs, ids) and np.shares_memory(targets, ids)
    inputs[0, 1] = 7
    assert targets[0, 0] == 7 and batch.ids.tolist()[0][1] == 7


@pytest.mark.parametrize("take", [np.asarray, np.from_dlpack], ids=["buffer", "dlpack"])
def test_memory_outlives_loader_and_batch(config: dict[str, Any], take: Any) -> None:
    loader = millstream.Loader(config)
    batches = iter(loader)
    arrays = [take(next(batches).inputs) for _ in range(20)]
    copies = [array.copy() for array in arrays]
    del batches, loader
    gc.collect()
    again = [np.asarray(batch.inputs).copy() for batch, _ in zip(millstream.Loader(config), range(20))]
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, copies))
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, again))


def test_int64_has_the_same_ids(config: dict[str, Any]) -> None:
    narrow, wide = millstream.Loader(config), millstream.Loader(config, dtype=np.int64)
    count = 0
    for a, b in zip(narrow, wide, strict=True):
        x, y = np.asarray(a.ids), np.asarray(b.ids)
        assert y.dtype == np.int64 and np.array_equal(x, y) and a.digest == b.digest and a.cursor == b.cursor
        assert np.asarray(b.segment_ids).dtype == np.int64
        count += 1
    assert count > 20


def test_segments_positions_and_masks_agree_with_pieces(config: dict[str, Any]) -> None:
    for batch, _ in zip(millstream.Loader(config), range(10)):
        rows, width = batch.shape
        segments, positions = np.zeros((rows, width), int), np.zeros((rows, width), int)
        mask, row, number = np.zeros((rows, width - 1), bool), -1, 0
        for piece in batch.pieces:
            number = number + 1 if piece.row == row else 1
            row = piece.row
            segments[row, piece.start : piece.stop] = number
            positions[row, piece.start : piece.stop] = range(piece.stop - piece.start)
            mask[row, piece.start : piece.stop - 1] = True
        assert np.array_equal(np.asarray(batch.segment_ids), segments[:, :-1])
        assert np.array_equal(np.asarray(batch.position_ids), positions[:, :-1])
        assert np.array_equal(np.asarray(batch.loss_mask), mask)
        starts = np.flatnonzero(np.diff(segments[:, :-1], axis=1, prepend=-1).ravel())
        assert np.asarray(batch.cu_seqlens).tolist() == [*starts, rows * (width - 1)]
        assert batch.max_seqlen == np.diff(np.asarray(batch.cu_seqlens)).max()
        assert np.asarray(batch.lengths).tolist() == (segments > 0).sum(axis=1).tolist()


def test_contiguous_consumers_are_refused_a_strided_view(config: dict[str, Any]) -> None:
    batch = next(iter(millstream.Loader(config)))
    whole = batch.ids.tolist()
    assert struct.unpack(f"{8 * 65}i", memoryview(batch.ids).tobytes()) == tuple(id for row in whole for id in row)
    with pytest.raises(BufferError, match="contiguous"):
        struct.Struct("i").unpack_from(batch.inputs)


def test_arrays_cannot_be_made_or_moved(config: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="batches make arrays"):
        millstream.Array()
    # What only says that it is an array is none.
    with pytest.raises(TypeError, match="not an array"):
        millstream._millstream.tolist(unittest.mock.Mock(spec=millstream.Array))
    array = next(iter(millstream.Loader(config))).inputs
    assert array.shape == (8, 64) and array.strides == (260, 4) and array.dtype == "int32" and len(array) == 8
    assert repr(array) == "<millstream.Array int32 [8, 64]>" and array.__dlpack_device__() == (1, 0)
    for refused in ({"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            array.__dlpack__(**refused)


def test_unused_capsules_free_their_memory(config: dict[str, Any]) -> None:
    batch = next(iter(millstream.Loader(config)))
    for _ in range(1000):
        batch.ids.__dlpack__()
        batch.ids.__dlpack__(max_version=(1, 0))


def test_arrays_may_be_those_of_numpy(config: dict[str, Any]) -> None:
    batch = next(iter(millstream.Loader(config, arrays="numpy")))
    assert isinstance(batch.inputs, np.ndarray) and np.shares_memory(batch.inputs, batch.ids)
    with pytest.raises(ValueError, match='"numpy"'):
        millstream.Loader(config, arrays="tensorflow")


def test_arrays_may_be_those_of_jax(config: dict[str, Any]) -> None:
    jax = pytest.importorskip("jax")
    for batch, theirs in zip(millstream.Loader(config), millstream.Loader(config, arrays="jax"), strict=True):
        for name in ("ids", "inputs", "targets", "loss_mask", "segment_ids", "cu_seqlens"):
            array = getattr(theirs, name)
            assert isinstance(array, jax.Array) and np.array_equal(array, np.asarray(getattr(batch, name))), name
