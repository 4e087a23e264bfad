"""What the program prints in, figures and a table in Markdown out. Nothing here runs or reads anything."""

import json
import re
import statistics

# How many steps at a run's end are looked at.
LAST = 100

COLUMNS = {
    "documents": ("documents per batch", "{:.1f}"),
    "loss": ("training loss", "{:.3f}"),
    "deviation": ("its deviation", "{:.3f}"),
    "validation_loss": ("validation loss", "{:.3f}"),
    "bits_per_byte": ("bits per byte", "{:.3f}"),
}


def without(config, *keys):
    """The config's text without the lines that set `keys`."""
    return re.sub(rf"(?m)^({'|'.join(keys)})\s*=.*\n", "", config)


def documents(shown):
    """How many documents a batch holds: the mean over the last batches that `inspect --json` shows."""
    batches = [json.loads(line)["pieces"] for line in shown.splitlines()[-LAST:]]
    return statistics.mean(len({(piece["path"], piece["byte"]) for piece in pieces}) for pieces in batches)


def of_run(said):
    """The figures of a run, from what `train --json` prints: a line for each step, and one for the run."""
    *steps, end = [json.loads(line) for line in said.splitlines()]
    losses = [step["loss"] for step in steps[-LAST:]]
    return {
        "loss": statistics.mean(losses),
        "deviation": statistics.stdev(losses) if len(losses) > 1 else 0.0,
        "validation_loss": end["validation_loss"],
        "bits_per_byte": end["bits_per_byte"],
    }


def summary(looks, runs):
    """For each way the mean of each figure over the seeds, and their standard deviation (none of one seed)."""
    ways, seen = [], {}
    for way in dict.fromkeys(look["way"] for look in looks):
        own = [look for look in looks if look["way"] == way]
        names = tuple(look["run"] for look in own)
        row = {"way": way, "same_batches_as": seen.setdefault(names, way)}
        for key in COLUMNS:
            values = [{**runs[look["run"]], **look}[key] for look in own]
            row[key] = {
                "mean": statistics.mean(values),
                "spread": statistics.stdev(values) if len(values) > 1 else None,
            }
        ways.append(row)
    return ways


def markdown(document):
    """The file for people: what was run, and a row for each way."""
    run, ways = document["run"], document["ways"]
    several = len(run["seeds"]) > 1
    seeds = ("seeds " if several else "seed ") + ", ".join(map(str, run["seeds"]))
    spread = " Each figure is the mean over the seeds ± the standard deviation." if several else ""
    parts = [
        f"`{run['command']}` with {run['version']}: configs/quickstart.toml, {run['steps']} steps, {seeds}.{spread}",
        f"The training loss is the mean of the last {run['last']} steps. Its deviation is the standard deviation of "
        "those steps. Validation reads a fixed sample of the held-out documents after the last step. Losses are in nats.",
    ]
    titles = " | ".join(title for title, _ in COLUMNS.values())
    lines = [f"| way | {titles} |", "|---" + "|---:" * len(COLUMNS) + "|"]
    for row in ways:
        cells = [cell(row[key], form) for key, (_, form) in COLUMNS.items()]
        lines.append("| " + " | ".join([row["way"], *cells]) + " |")
    parts.append("\n".join(lines))
    for first in dict.fromkeys(row["same_batches_as"] for row in ways):
        same = [f"“{row['way']}”" for row in ways if row["same_batches_as"] == first]
        if len(same) > 1:
            parts.append(f"The same batches, and so the same runs: {', '.join(same)}.")
    return "\n\n".join(parts) + "\n"


def cell(figure, form):
    text = form.format(figure["mean"])
    return text if figure["spread"] is None else f"{text} ± {form.format(figure['spread'])}"
