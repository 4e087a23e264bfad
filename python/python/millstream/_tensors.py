"""A batch's arrays as tensors that share their memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from ._millstream import Batch

FIELDS = (
    "inputs",
    "targets",
    "labels",
    "ids",
    "loss_mask",
    "segment_ids",
    "position_ids",
    "lengths",
    "cu_seqlens",
    "max_seqlen",
)

IGNORED = -100
"""The label of what is not to be learned, as transformers and `cross_entropy` have it."""


def tensor(array: Any) -> Any:
    if isinstance(array, (int, torch.Tensor)):
        return array
    return from_dlpack(array)


def field(batch: Batch, name: str) -> Any:
    if name == "labels":
        # PyTorch's losses take no other integers.
        return torch.where(tensor(batch.loss_mask), tensor(batch.targets), IGNORED).long()
    return tensor(getattr(batch, name))
