"""The memory of a process and all that it started. Linux: /proc says it."""

import os
import threading


def tree(root):
    """A process and its descendants."""
    found = [root]
    for process in found:
        try:
            for task in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{task}/children") as file:
                    found += [int(child) for child in file.read().split()]
        except OSError:
            continue  # It has just ended.
    return found


def proportional(process):
    """Its proportional set size in bytes: a page that n processes share counts an n-th in each."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


class Peak:
    """Looks at a tree every `seconds`, from a thread of its own, until it is left."""

    def __init__(self, root, seconds):
        self.root, self.seconds, self.bytes = root, seconds, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.ended.wait(self.seconds):
            self.bytes = max(self.bytes, sum(map(proportional, tree(self.root))))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
