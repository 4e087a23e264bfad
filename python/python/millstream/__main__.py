"""The program: `millstream`, or `python -m millstream`."""

from __future__ import annotations

import signal
import sys

from ._millstream import main as run


# What only the Rust program has: the commands of the trainer.
TRAINER = ("train", "report", "generate", "model", "when")


def main() -> int:
    """Runs the program with this process's arguments, and returns its exit code."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    if command in TRAINER:
        print(f"error: `{command}` is in the Rust program only: cargo install --path crates/cli in a clone", file=sys.stderr)
        return 2
    # The program answers signals itself; Python's handlers would wait for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = "millstream" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
    return run([name, *sys.argv[1:]], [sys.executable, "-m", "millstream"])


if __name__ == "__main__":
    sys.exit(main())
