"""All measurements of one loader with one engine, one after the other; `run.py` starts it. Prints one line of JSON.

    python3 measure.py PLAN LOADER [ENGINE]

Memory is looked at where time is not measured to its last percent: at the slow consumer, when all queues are full, and
over the whole epoch.
"""

import json
import os
import statistics
import sys

from harness import children, machine, millstream
from harness.plan import Plan

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")

# Runs that are shorter are repeated, this often in all.
SHORT, REPEATS = 2.0, 3


def measured(plan, loader, engine):
    """What was measured of a loader; what failed says so in its place."""
    found, firsts, peaks = {}, [], []

    def child(task, *options, look=None):
        command = [plan.python, CHILD, task, loader, "--work", plan.work, *options]
        command += ["--engine", engine] if engine else []
        said, peak = children.run(command, environment(plan, loader, engine), look)
        peaks.append(peak or 0)
        if "first_batch_seconds" in said:
            firsts.append(said["first_batch_seconds"])
        return said

    def attempt(task):
        try:
            found.update(task())
        except children.Failed as failed:
            found.setdefault("failed", []).append(f"{task.__name__}: {failed}")

    def speed():
        rates = []
        for _ in range(REPEATS):
            said = child("speed", "--seconds", str(plan.seconds))
            rates.append(said["tokens_per_second"])
            if said["seconds"] > SHORT:
                break
        return {"tokens_per_second": statistics.median(rates)}

    def wait():
        options = ("--batches", str(plan.wait_batches), "--consume-ms", str(plan.consume_ms))
        return {"wait_share": child("wait", *options, look=0.1)["wait_share"]}

    def epoch():
        return child("epoch", "--state", state, look=0.5)

    def resume():
        return child("resume", "--state", state)

    state = os.path.join(plan.scratch, f"{loader}-{engine or 'shards'}.state")
    for task in (speed, wait, epoch, resume):
        attempt(task)
    if firsts:
        found["first_batch_seconds"] = statistics.median(firsts)
    if any(peaks):
        found["peak_bytes"] = max(peaks)
    return found


def environment(plan, loader, engine):
    folders = [plan.packages[name] for name in (engine, loader) if name in plan.packages]
    return {
        "PYTHONPATH": os.pathsep.join(folders),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HOME": plan.cache,
        "HF_HUB_OFFLINE": "1",
    }


def main():
    plan, loader, *engine = sys.argv[1:]
    plan, engine = Plan.load(plan), engine[0] if engine else None
    others = machine.busy()
    if loader == "millstream":
        found = millstream.measured(plan, loader, engine, [plan.python, CHILD])
    else:
        found = measured(plan, loader, engine)
    print(json.dumps({**found, "busy_before": others}))


if __name__ == "__main__":
    main()
