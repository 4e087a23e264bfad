"""What is measured on, and whether anything else runs there. Linux: /proc says it."""

import os
import time


def named():
    """The processor and how many of its cores this process may use."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{len(os.sched_getaffinity(0))} cores of {model}"


def busy(seconds=0.5):
    """The share of all cores' time that is used while this process sleeps."""
    before = times()
    time.sleep(seconds)
    used, total = (after - at for after, at in zip(times(), before))
    return used / max(1, total)


def times():
    with open("/proc/stat", encoding="utf-8") as file:
        counts = [int(count) for count in file.readline().split()[1:9]]
    return sum(counts) - counts[3] - counts[4], sum(counts)
