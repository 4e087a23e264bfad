"""Proves loaders: their order, their resume after a real kill, and their worlds."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._millstream import verify as run_plan
from ._verify_child import Run, serve

ORDERS = "MILLSTREAM_VERIFY_ORDERS"

_was_called = False

MakeLoader = Callable[[Run], Any]


@dataclass(frozen=True)
class Report:
    """What `verify` found."""

    fields: dict[str, Any]
    """All of it, as the program's `--json` has it."""
    table: str
    """The same as text; the last line names the first difference."""

    @property
    def mismatches(self) -> int:
        """How many comparisons found a difference."""
        return int(self.fields["mismatches"])

    @property
    def first_difference(self) -> str | None:
        """Which row was lost, repeated or changed first, in words."""
        return self.table.splitlines()[-1] if self.mismatches else None

    def __bool__(self) -> bool:
        return self.mismatches == 0

    def __str__(self) -> str:
        return self.table


def verify(
    make_loader: MakeLoader,
    *,
    batches: int = 60,
    points: int = 5,
    workers: Sequence[int] = (1, 2),
    worlds: Sequence[int] = (1,),
    rows: Callable[[Any], Iterable[Any]] | None = None,
    merge: Callable[[list[Any]], Any] | None = None,
    seed: int | None = None,
    patience: float = 300.0,
) -> Report:
    """Proves a loader by running it in other processes: undisturbed, with other workers, killed again and again and
    resumed from its own state, and as the ranks of other worlds. Every row of every run is compared.

    `make_loader(run)` returns a `millstream.Loader`, or anything that can be iterated and has `state_dict()` and
    `load_state_dict()`, or `get_state()` and `set_state()`, for `run.workers` workers and for rank `run.rank` of
    `run.world`. It is called in the other processes, so define it in a script or a module, not in a notebook.

    - `batches`: how many are compared. `points`: how many processes are killed.
    - `workers`: the numbers of workers that must not matter. 0 stands for the process itself, as in a `DataLoader`.
    - `worlds`: the numbers of ranks that must not matter. The ranks' rows of a batch together must be those of one process,
      in any order.
    - `rows(batch)`: the rows of a batch, if they are not the first axis of its arrays.
    - `merge(states)`: joins the states that all ranks saved after a batch, for another number of ranks. By default it takes
      the first of them; for a `millstream.Loader` it is `Cursor.merge`.
    - `seed`: of the random moments of the kills, to repeat a run; a new one each time by default.
    - `patience`: how long a batch may take, in seconds.

    The report is true if nothing differed, and its text names the first row that was lost, repeated or changed. Call
    `verify` once, at the top level of a script, and `millstream verify --program "python script.py"` can run it too. If your
    loader spawns worker processes, these import the script: put the call under `if __name__ == "__main__"`.
    """
    orders = os.environ.get(ORDERS)
    if orders is not None:
        try:
            serve(orders, make_loader, rows=rows, merge=merge)
        except BaseException:
            # Whatever the script catches, this process has failed.
            traceback.print_exc()
            os._exit(1)
        sys.exit(0)
    global _was_called
    if _was_called:
        raise RuntimeError(
            "verify can run once per program: its child processes run the script up to the first call; "
            "write a script for each loader"
        )
    _was_called = True
    fields, table = run_plan(
        _command(make_loader),
        batches=batches,
        points=points,
        workers=list(workers),
        worlds=list(worlds),
        seed=seed,
        patience=patience,
    )
    return Report(json.loads(fields), table)


def _command(make_loader: MakeLoader) -> list[str]:
    """The command that starts this script again: in it, `verify` is called with the same function."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return [sys.executable, "-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    if file is not None:
        return [sys.executable, file, *sys.argv[1:]]
    raise ValueError(
        f"verify runs your script again, but {make_loader!r} is not in a file; put it in a script that calls "
        "millstream.verify, and run that"
    )


__all__ = ["Report", "Run", "verify"]
