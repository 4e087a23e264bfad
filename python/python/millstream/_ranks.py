"""Which of several processes this is, as the libraries that connect them say it.

A launcher's environment variables are read in Rust. What is found here overrides them.
"""

from __future__ import annotations

import sys


def connected() -> tuple[int, int] | None:
    """Rank and world of `torch.distributed` or of `jax.distributed`, if one of them is imported and initialised."""
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        return torch.get_rank(), torch.get_world_size()
    jax = sys.modules.get("jax")
    # Early versions cannot say it.
    if jax is not None and getattr(jax.distributed, "is_initialized", bool)():
        return jax.process_index(), jax.process_count()
    return None


def dealt_by_accelerate() -> bool:
    """Whether Accelerate runs in several processes: what it prepares, it deals out among them."""
    state = sys.modules.get("accelerate.state")
    return state is not None and state.PartialState._shared_state.get("num_processes", 1) > 1
