"""Millstream's own side, by the program's commands. The wheel is measured as the peers are."""

import os
import statistics

from . import children

ALL = str(1 << 40)
COMPARED = 8
REPEATS = 3


def measured(plan, loader, engine, child):
    """Rates, waits, memory, resume and the work done, as of the others. The memory is the larger one of what is seen from outside and
    what the system says of the process at its end, which counts shared pages whole."""
    config = plan.online if engine else plan.shards
    firsts, peaks = [], []

    def bench(*options, look=None):
        said, peak = children.run([plan.millstream, "bench", "loader", config, "--json", *options], look=look)
        firsts.append(said["first_batch_seconds"])
        peaks.extend((said["peak_rss_bytes"], peak or 0))
        return said

    rates = [bench("--batches", ALL)["tokens_per_second"] for _ in range(REPEATS)]
    options = ("--batches", str(plan.wait_batches), "--consume-ms", str(plan.consume_ms))
    wait = bench(*options, look=0.1)["wait_share"]
    work = ["--work", plan.work, "--state", os.path.join(plan.scratch, f"{loader}.state")]
    work += ["--engine", engine] if engine else []
    same, _ = children.run([*child, "epoch", loader, *work])
    return {
        "tokens_per_second": statistics.median(rates),
        "wait_share": wait,
        "first_batch_seconds": statistics.median(firsts),
        "peak_bytes": max(peaks),
        **same,
        **resumed(plan, config),
    }


def resumed(plan, config):
    """The time from opening at the cursor of 60% of the epoch to the next batch, and whether the batches are the same."""
    cursor, at = os.path.join(plan.scratch, "cursor.json"), plan.batches * 6 // 10
    through = digests(plan, config, at + COMPARED, "--cursor-at", str(at), cursor)
    after = digests(plan, config, COMPARED, "--from", cursor)
    times = []
    for _ in range(REPEATS):
        said, _ = children.run([plan.millstream, "bench", "loader", config, "--json", "--batches", "1", "--from", cursor])
        times.append(said["first_batch_seconds"])
    return {
        "resume_seconds": statistics.median(times),
        "exact": through[-COMPARED:] == after,
        "replayed": False,
        "state_bytes": os.path.getsize(cursor),
        "at": at,
    }


def digests(plan, config, batches, *options):
    command = [plan.millstream, "digest", config, "--json", "--each", "--batches", str(batches), *options]
    return [line["digest"] for line in children.lines(command) if "batch" in line]
