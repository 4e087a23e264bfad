"""Draws benches/results/memory.svg: memory, threads and open files over time, from what `cargo bench -- memory`
kept with --samples.

    python3 benches/soak.py

It needs nothing but Python. Each file is one row of panels; what was run one after the other stands side by side.
"""

import csv
import sys
from html import escape
from itertools import groupby
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
FILES = [("memory-loading.csv", "Loading"), ("memory-training.csv", "Training")]

# What each line of panels shows: its columns, a title, and what one unit of the axis is.
PANELS = [
    (("own_kib", "mapped_kib"), "memory, MiB (paler: mapped files)", 1024),
    (("threads",), "threads", 1),
    (("files",), "open files", 1),
]

WIDTH, LEFT, HEIGHT, GAP, TOP = 900, 44, 84, 30, 40
STYLE = """
text{font:12px system-ui,sans-serif;fill:#57606a}
.title{font-weight:600;fill:#24292f}.small{font-size:10px}.end{text-anchor:end}
.axis{stroke:#8c959f;stroke-opacity:.5}path{fill:none}.line{stroke:#0969da}.paler{stroke:#0969da;stroke-opacity:.4}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.title{fill:#f0f6fc}.line,.paler{stroke:#4493f8}}
"""


def read(path):
    """The runs of a file in their order: a name, and its rows."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return [(what, list(its)) for what, its in groupby(rows, key=lambda row: row["what"])]


def length(rows):
    """How many seconds some rows cover."""
    seconds = [int(row["second"]) for row in rows]
    return seconds[-1] + (seconds[1] - seconds[0] if len(seconds) > 1 else 1)


def ceiling(most):
    """The end of an axis: a round number above all values."""
    step = next(step for scale in range(9) for step in (10**scale, 2 * 10**scale, 5 * 10**scale) if most <= 5 * step)
    return step * max(1, -(-most // step))


def panel(runs, columns, unit, y):
    """The lines of one panel, and its axis."""
    total = sum(length(rows) for _, rows in runs)
    top = ceiling(max(int(row[column]) / unit for _, rows in runs for row in rows for column in columns))
    parts = [f'<path class="axis" d="M{LEFT} {y}V{y + HEIGHT}H{WIDTH}"/>']
    for value in (0, top):
        at = y + HEIGHT * (1 - value / top)
        parts.append(f'<text class="small end" x="{LEFT - 5}" y="{at + 4:g}">{value:g}</text>')
    begun = 0
    for _, rows in runs:
        for column, style in zip(columns, ("line", "paler")):
            points = []
            for row in rows:
                x = LEFT + (begun + int(row["second"])) / total * (WIDTH - LEFT)
                points.append(f"{x:.1f} {y + HEIGHT * (1 - int(row[column]) / unit / top):.1f}")
            parts.append(f'<path class="{style}" d="M{"L".join(points)}"/>')
        begun += length(rows)
        x = LEFT + begun / total * (WIDTH - LEFT)
        parts.append(f'<path class="axis" d="M{x:.1f} {y}v{HEIGHT}"/>')
    return parts


def names(runs, y):
    """What was run, over the time that it took."""
    total = sum(length(rows) for _, rows in runs)
    begun = 0
    for what, rows in runs:
        x = LEFT + begun / total * (WIDTH - LEFT)
        yield f'<text class="small" x="{x + 3:.1f}" y="{y}">{escape(what)}</text>'
        begun += length(rows)


def draw(files):
    """The picture of some files, each with its title."""
    parts, y = [], 0
    for title, runs in files:
        minutes = sum(length(rows) for _, rows in runs) / 60
        parts.append(f'<text class="title" x="0" y="{y + 14}">{escape(title)}: {minutes:.0f} minutes</text>')
        for index, (columns, name, unit) in enumerate(PANELS):
            at = y + TOP + index * (HEIGHT + GAP)
            parts.append(f'<text class="small" x="0" y="{at - 14}">{escape(name)}</text>')
            if len(runs) > 1:
                parts.extend(names(runs, at - 3))
            parts.extend(panel(runs, columns, unit, at))
        y += TOP + len(PANELS) * (HEIGHT + GAP) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" role="img">'
        f"<title>Memory, threads and open files over time</title><style>{STYLE}</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    picture = RESULTS / "memory.svg"
    picture.write_text(draw([(title, read(RESULTS / name)) for name, title in FILES]))
    print(picture, file=sys.stderr)
