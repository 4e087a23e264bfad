"""Runs in, figures and a table in Markdown out; and what all runs share: a corpus and the machine's name."""

import os
import statistics

from shapes import OURS, WARMUP, flops, parameters

# Trainers of one shape see the same rows and start from like weights. Further apart, they do not do the same work.
ALIKE = 0.05


def text(root, size):
    """ASCII text of `size` bytes: this repository's documentation and sources, again and again."""
    parts = []
    for directory in ("docs", "src"):
        for folder, folders, names in sorted(os.walk(os.path.join(root, directory))):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".md", ".rs")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        parts.append(file.read().encode("ascii", "ignore").decode())
    whole = "".join(parts)
    return (whole * (size // len(whole) + 1))[:size]


def machine():
    """The processor and how many of its cores this process may use."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {models[0] if models else 'an unknown processor'}"


def rate(run, shape):
    """Targets per second: the median step's, without the first steps."""
    return shape["rows"] * shape["length"] / statistics.median(step["seconds"] for step in run["steps"][WARMUP:])


def loss(run):
    """The mean loss of the last quarter of the steps."""
    steps = run["steps"]
    return statistics.mean(step["loss"] for step in steps[-max(1, len(steps) // 4) :])


def predicted(memory):
    """The predicted peak in bytes: all terms, less `overlap`, which two of them count and no moment holds."""
    return sum(-size if term == "overlap" else size for term, size in memory.items())


def between(ours, theirs, shape):
    """The least and the most that our rate was to theirs in a round."""
    ratios = [rate(one, shape) / rate(other, shape) for one, other in zip(ours, theirs, strict=True)]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def summary(runs, shape):
    """For each trainer the median over its runs of the rate, the memory and the loss."""
    found = {}
    for trainer, own in runs.items():
        found[trainer] = {
            "tokens_per_second": statistics.median(rate(run, shape) for run in own),
            "peak_memory": statistics.median(run["peak_memory"] for run in own),
            "loss": statistics.median(loss(run) for run in own),
        }
    return found


def apart(found):
    """The trainers whose loss is not that of the first."""
    first = next(iter(found.values()))["loss"]
    return [trainer for trainer, each in found.items() if abs(each["loss"] / first - 1) > ALIKE]


def markdown(document):
    """The file for people: what was run, and a table for each shape."""
    run = document["run"]
    versions = ", ".join(f"{name} {version}" if name not in version else version for name, version in run["versions"].items())
    parts = [
        f"`{run['command']}` on {run['machine']}: {versions}; medians of {run['rounds']} rounds.",
        "Rates are those of the median step. Memory is the most that the process had; PyTorch's libraries are some 0.3 GiB "
        "of it. The loss is the mean of the last quarter of the steps, in nats.",
    ]
    for name, shape in document["shapes"].items():
        runs = document["runs"][name]
        found = summary(runs, shape)
        ours = found.get(OURS)
        parts.append(
            f"**{name}**: {parameters(shape) / 1e6:.1f} M parameters, {shape['layers']} x {shape['width']}, SwiGLU "
            f"{shape['d_ff']}, {shape['vocab']:,} ids; {shape['rows']} rows of {shape['length']}; {shape['steps']} steps"
        )
        has_rounds = ours and run["rounds"] > 1
        ratios = ["Millstream's rate to it", *(["in single rounds"] if has_rounds else [])]
        heads = ["trainer", "tokens/s", "GFLOP/s", *ratios, "peak memory, GiB", "loss"]
        lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
        for trainer, each in found.items():
            speed = each["tokens_per_second"]
            ratio = f"{ours['tokens_per_second'] / speed:.2f}" if ours else ""
            cells = [trainer, f"{speed:,.0f}", f"{speed * flops(shape) / 1e9:.1f}", ratio]
            cells += ["" if trainer == OURS else between(runs[OURS], runs[trainer], shape)] if has_rounds else []
            lines.append(f"| {' | '.join(cells)} | {each['peak_memory'] / 2**30:.2f} | {each['loss']:.3f} |")
        parts.append("\n".join(lines))
        if strange := apart(found):
            parts.append(f"The loss of {', '.join(strange)} is more than {ALIKE:.0%} from that of the first: look into it.")
    return "\n\n".join(parts) + "\n"
