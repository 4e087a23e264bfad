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


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_elements_are_those_of_the_list(config: dict[str, Any], dtype: str) -> None:
    batch = next(iter(millstream.Loader(config, dtype=dtype)))
    for name in ("ids", "targets", "loss_mask", "lengths"):
        array = getattr(batch, name)
        elements = array.tolist()
        assert list(array) == elements and elements[1] in array, name
        assert [array[place] for place in (0, 3, -1, -8)] == [elements[place] for place in (0, 3, -1, -8)], name
        for part in (slice(2, 5), slice(None, None, -2), slice(9, None)):
            assert array[part] == elements[part], name
        for place in (8, -9):
            with pytest.raises(IndexError):
                array[place]
        with pytest.raises(TypeError):
            array["0"]
        with pytest.raises(TypeError):
            array[0] = array[0]
    assert batch.ids[2, -1] == batch.ids[2][-1]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_memory_is_read_only_unless_it_is_copied(config: dict[str, Any], dtype: str) -> None:
    class Unversioned:
        """What a consumer sees that does not know version 1 of DLPack."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **_: Any) -> object:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    batch = next(iter(millstream.Loader(config, dtype=dtype)))
    for name in ("ids", "inputs", "segment_ids", "loss_mask", "lengths"):
        array = getattr(batch, name)
        elements = array.tolist()
        with pytest.raises(TypeError, match="read-write"):
            struct.pack_into("i", array, 0, 7)
        for shared in (np.asarray(array), np.from_dlpack(array), np.from_dlpack(array, copy=False)):
            assert np.shares_memory(shared, np.asarray(array)) and not shared.flags.writeable, name
        copy = np.from_dlpack(array, copy=True)
        assert copy.flags.writeable
        for copy in (copy, np.from_dlpack(Unversioned(array))):
            assert copy.tolist() == elements and copy.dtype == array.dtype, name
            assert not np.shares_memory(copy, np.asarray(array)), name
        with pytest.raises(BufferError, match="version 1"):
            array.__dlpack__(copy=False)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_digest_is_that_of_what_was_read(config: dict[str, Any], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    digest = next(iter(millstream.Loader(config))).digest
    batch = next(iter(millstream.Loader(config, dtype=dtype)))
    # PyTorch writes to memory that is read-only.
    inputs = torch.from_dlpack(batch.inputs)
    inputs.zero_()
    assert batch.digest == digest
    assert inputs.data_ptr() == np.asarray(batch.inputs).ctypes.data and not np.asarray(batch.inputs).any()


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
        millstream._millstream.describe(unittest.mock.Mock(spec=millstream.Array))
    array = next(iter(millstream.Loader(config))).inputs
    assert array.shape == (8, 64) and array.strides == (260, 4) and array.dtype == "int32" and len(array) == 8
    assert repr(array) == "<millstream.Array int32 [8, 64]>" and array.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="CPU memory"):
        array.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="not the bytes"):
        millstream._millstream.dlpack(array, True, b"")


def test_unused_capsules_free_their_memory(config: dict[str, Any]) -> None:
    batch = next(iter(millstream.Loader(config)))
    for _ in range(1000):
        batch.ids.__dlpack__()
        batch.ids.__dlpack__(max_version=(1, 0))
        batch.ids.__dlpack__(max_version=(1, 0), copy=True)


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
