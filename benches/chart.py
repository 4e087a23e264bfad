"""Draws benches/results/peers.svg from the tables in benches/results/peers.md:

    python3 benches/chart.py

It needs nothing but Python. Millstream is beside each loader in four figures: speed, first batch, memory, data wait.
"""

import re
import sys
from html import escape
from pathlib import Path

RESULTS = Path(__file__).parent / "results"

# What each panel shows: the table's column, a title, and how its figures read.
PANELS = [
    ("M tokens/s", "speed, M tokens/s", "more is better"),
    ("first batch", "first batch", "less is better"),
    ("peak memory", "peak memory", "less is better"),
    ("waits at 20 ms a batch", "data wait at 20 ms a batch", "less is better"),
]
UNITS = {"": 1, "%": 1, "ms": 1, "s": 1000, "MiB": 1, "GiB": 1024}
# The tokenizer that a peer has from PyPI as it is; a second bar shows the fastest one it was measured with.
RELEASED = "tokenizers"
MISSING = "not measured"

LABELS, PANEL, BAR, ROW_GAP, TOP = 170, 190, 11, 7, 62
STYLE = """
text{font:12px system-ui,sans-serif;fill:#57606a}
.title{font-weight:600;fill:#24292f}.small{font-size:10px}.ours{fill:#0969da}.peer{fill:#8c959f}.fast{fill-opacity:.5}
.axis{stroke:#8c959f;stroke-opacity:.5}text.ours{font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.title{fill:#f0f6fc}.ours,text.ours{fill:#4493f8}.peer{fill:#7d8590}}
"""


def tables(text):
    """The tables of a page, each under the line before it: rows by the names of their columns."""
    found, name, header = {}, "", None
    for line in text.splitlines():
        if not line.startswith("|"):
            header = None
            name = line.strip() or name
        elif header is None:
            header = cells(line)
            found[name] = []
        elif set(line) - set("|-: "):
            found[name].append(dict(zip(header, cells(line))))
    return found


def cells(line):
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]


def figure(cell):
    """The number that a cell begins with, in its column's smallest unit, and the cell without its ratio; none if it has
    no number."""
    told = re.sub(r"\s*\(.*", "", cell or "")
    match = re.match(r"([\d.]+)\s*(\S*)", told)
    return (float(match[1]) * UNITS[match[2]], told) if match else None


def groups(rows):
    """The bars of each loader: its row with the released tokenizer, and the one that is fastest."""
    loaders = {}
    for row in rows:
        loaders.setdefault(row["loader"], []).append(row)

    def speed(row):
        value = figure(row[PANELS[0][0]])
        return value[0] if value else 0

    for loader, its in loaders.items():
        first = next((row for row in its if row.get("tokenizer") == RELEASED), its[0])
        fastest = max(its, key=speed)
        yield loader, [first] if fastest is first else [first, fastest]


class Drawing:
    def __init__(self):
        self.parts, self.y = [], 0

    def text(self, x, y, text, style=""):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(text)}</text>')

    def block(self, title, rows):
        """One table: its loaders below each other, its figures beside each other."""
        loaders = list(groups(rows))
        self.text(0, self.y + 14, title, "title")
        height = sum(len(bars) * BAR + ROW_GAP for _, bars in loaders)
        for panel, (column, name, sense) in enumerate(PANELS):
            x = LABELS + panel * PANEL
            self.text(x, self.y + 34, name, "title")
            self.text(x, self.y + 47, sense, "small")
            most = max((value[0] for row in rows if (value := figure(row.get(column)))), default=0) or 1
            y = self.y + TOP
            self.parts.append(f'<path class="axis" d="M{x} {y - 4}v{height}"/>')
            for loader, bars in loaders:
                ours = "ours" if loader == "Millstream" else "peer"
                if panel == 0:
                    self.text(0, y + len(bars) * BAR / 2 + 4, loader, ours if ours == "ours" else "")
                for index, row in enumerate(bars):
                    value = figure(row.get(column))
                    wide = value[0] / most * (PANEL - 72) if value else 0
                    style = f"{ours} fast" if index else ours
                    self.parts.append(
                        f'<rect class="{style}" x="{x}" y="{y + index * BAR}" width="{wide:.1f}" height="{BAR - 1}"/>'
                    )
                    self.text(x + wide + 4, y + index * BAR + 9, value[1] if value else MISSING, "small")
                y += len(bars) * BAR + ROW_GAP
        self.y += TOP + height + 16


def draw(page):
    """The picture of a page of results."""
    drawing = Drawing()
    for title, rows in tables(page).items():
        drawing.block(title.rstrip(":"), rows)
    notes = [
        "Where a loader has two bars: the released tokenizers package, and paler the fastest tokenizer it was measured with.",
        page.splitlines()[0].replace("`", "").rstrip(":"),
    ]
    for note in notes:
        drawing.text(0, drawing.y + 10, note, "small")
        drawing.y += 16
    width = LABELS + len(PANELS) * PANEL
    title = "Millstream beside other loaders: " + ", ".join(name for _, name, _ in PANELS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {drawing.y}" width="{width}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>\n" + "\n".join(drawing.parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    picture = RESULTS / "peers.svg"
    picture.write_text(draw((RESULTS / "peers.md").read_text()))
    print(picture, file=sys.stderr)
