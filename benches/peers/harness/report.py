"""What was measured, as JSON and as a table in Markdown. Millstream's figures are the medians of its turns."""

import statistics

from .names import COMPLETE, ENGINES, LABELS, ONLINE, OWN, OWN_TURNS, SHARDS

# How busy others may keep the cores before a loader is measured.
QUIET = 0.1
NUMBERS = ("tokens_per_second", "first_batch_seconds", "peak_bytes", "wait_share", "resume_seconds")
SAME = ("documents", "tokens", "checksum")
# What the wheel is compared on, and how it is said.
COMPARED = {"online": "text", "shards": "shards"}


def median(turns):
    """Of Millstream's turns: the median of each number; all of them must have done their work."""
    whole = dict(turns[0])
    for name in NUMBERS:
        values = [turn[name] for turn in turns if name in turn]
        if values:
            whole[name] = statistics.median(values)
    whole["busy_before"] = max(turn["busy_before"] for turn in turns)
    whole["exact"] = all(turn.get("exact") for turn in turns)
    whole["rates"] = [turn.get("tokens_per_second") for turn in turns]
    return whole


def judge(found, reference):
    """Whether the work was that of everybody: None if it could not be told."""
    if not all(name in found for name in SAME):
        return None
    return all(found[name] == reference[name] for name in SAME)


def table(results, kind):
    """One table of `kind`: online or shards."""
    rows = [row for row in results if row["kind"] == kind]
    own = next((row for row in rows if row["loader"] == "millstream"), {})
    order = [loader for _, loader, _ in (*OWN_TURNS, *COMPLETE)] + [*(ONLINE if kind == "online" else SHARDS)]
    engines = [None, *OWN, *ENGINES]
    rows.sort(key=lambda row: (engines.index(row["engine"]), order.index(row["loader"])))
    if kind == "online":
        heads = ["loader", "tokenizer"]
    else:
        heads = ["loader"]
    heads += ["M tokens/s", "first batch", "peak memory", "waits at 20 ms a batch", "resume at 60%", "same work"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += ["| " + " | ".join(cells(row, own, kind)) + " |" for row in rows]
    return "\n".join(lines)


def cells(row, own, kind):
    engine = {**ENGINES, **OWN}.get(row["engine"])
    begin = [LABELS[row["loader"]]] + ([engine] if kind == "online" else [])
    return begin + [
        beside(row, own, "tokens_per_second", lambda rate: significant(rate / 1e6)),
        beside(row, own, "first_batch_seconds", seconds),
        beside(row, own, "peak_bytes", lambda size: f"{size / 2**20:.0f} MiB"),
        f"{row['wait_share'] * 100:.2f}%" if "wait_share" in row else failed(row, "wait"),
        resumed(row, own),
        {True: "yes", False: "**no**", None: failed(row, "epoch")}[row["same_work"]],
    ]


def beside(row, own, name, shown):
    """A number, and how many times Millstream's it is."""
    if name not in row:
        return failed(row, "speed")
    text = shown(row[name])
    return f"{text} ({significant(row[name] / own[name])}x)" if own.get(name) else text


def resumed(row, own):
    if "resume_seconds" not in row:
        return failed(row, "resume")
    text = beside(row, own, "resume_seconds", seconds)
    if not row["exact"]:
        share = f", {row['delivered']:.0%} of what was left" if "delivered" in row else ""
        return f"{text}, **other batches**{share}"
    return text + (", reads it again" if row["replayed"] else ", exact")


def failed(row, task):
    return "failed" if any(text.startswith(task) for text in row.get("failed", ())) else "-"


def from_python(results):
    """How much of the program's rate its wheel keeps: of each turn, as the two ran one after the other in it."""
    rates = {(row["kind"], row["loader"]): row.get("rates", []) for row in results}
    kept = []
    for kind, what in COMPARED.items():
        pairs = zip(rates.get((kind, "millstream_python"), []), rates.get((kind, "millstream"), []))
        shares = [ours / program for ours, program in pairs if ours and program]
        if shares:
            kept.append(f"{statistics.median(shares):.0%} from {what}")
    return f"From Python the wheel keeps, of the Rust program's rate: {', '.join(kept)}." if kept else None


def seconds(value):
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def significant(value):
    """Two digits that count, or all before the point."""
    if value >= 10:
        return f"{value:.0f}"
    return f"{value:.2g}" if value < 0.995 else f"{value:.1f}".removesuffix(".0")


def markdown(document):
    """The file for people: the tables, and the machine and command that they are of."""
    run = document["run"]
    parts = [f"{run['machine']}; {run['corpus']}; `{run['command']}`, in {run['minutes']:.0f} minutes:"]
    noisy = sum(row["busy_before"] > QUIET for row in document["results"])
    if noisy:
        parts.append(f"**The machine was not quiet**: other programs were at work before {noisy} of the measurements.")
    titles = {"online": "From text:", "shards": "From ids that were tokenized before:"}
    for kind, title in titles.items():
        if any(row["kind"] == kind for row in document["results"]):
            parts += [title, table(document["results"], kind)]
    if kept := from_python(document["results"]):
        parts.append(kept)
    sources = {**ENGINES, **OWN, None: "shards"}
    wrong = [
        f"- {LABELS[row['loader']]}, {sources[row['engine']]}: {text}"
        for row in document["results"]
        for text in row.get("failed", ())
    ]
    if wrong:
        parts += ["What failed:", "\n".join(wrong)]
    return "\n\n".join(parts) + "\n"
