"""What it takes to read tables as other programs write them: in one page a column, in one batch, in thousands of row groups.

    cargo build --release
    python3 -m venv target/tables
    target/tables/bin/pip install pyarrow duckdb fastparquet pandas polars
    target/tables/bin/python benches/tables.py

The swept variable is the file. Each holds some MB to 120 MB of text, in a few hundred KB to 30 MB. The program reads an
epoch of it with `pipeline.memory = "128MiB"` and bytes as ids. Beside it stand what `check` says that the loader takes,
and what pyarrow takes to read the same texts, a row group or a batch at a time. It takes about two minutes on two cores.

| option | what it says | default |
|---|---|---|
| `--bin PATH` | the program | target/release/millstream |
| `--out PATH` | where the table goes beside standard output | |
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import script

MEMORY = 128 << 20


def duckdb(path):
    """DuckDB's pages have up to 100 MB: here the row group's only one has 118."""
    import duckdb as db

    db.sql(f"copy (select repeat(md5(range::varchar), 30) as text from range(122880)) to '{path}'")


def fastparquet(path):
    """One page a column."""
    import fastparquet as fast
    import pandas

    fast.write(path, pandas.DataFrame({"text": [f"lorem ipsum {row % 7} " * 140 for row in range(57000)]}), compression="ZSTD")


def feather(path):
    """One compressed batch."""
    import pyarrow
    from pyarrow import feather as it

    texts = pyarrow.table({"text": [f"lorem ipsum {row % 7} " * 140 for row in range(57000)]})
    it.write_feather(texts, path, compression="zstd", chunksize=texts.num_rows)


def polars(path):
    import polars as it

    it.DataFrame({"text": [f"lorem ipsum {row} " * 100 for row in range(20000)]}).write_ipc(path, compression="zstd")


def groups(rows, of_group, others, length):
    """`rows` texts in groups of `of_group`, beside so many other columns."""

    def write(path):
        import pyarrow
        from pyarrow import parquet

        draw = random.Random(1)
        columns = {f"c{column}": [draw.random() for _ in range(rows)] for column in range(others)}
        columns["text"] = [f"row {row} ".ljust(length, "x") for row in range(rows)]
        parquet.write_table(pyarrow.table(columns), path, row_group_size=of_group)

    return write


FILES = {
    "DuckDB, a page of 118 MB": ("parquet", duckdb),
    "fastparquet, a page of 112 MB": ("parquet", fastparquet),
    "feather, a batch of 112 MB": ("arrow", feather),
    "polars": ("arrow", polars),
    "1,000 groups of 13 columns": ("parquet", groups(8000, 8, 12, 1000)),
    "100 groups of 301 columns": ("parquet", groups(1000, 10, 300, 1000)),
    "2,000 groups of one row": ("parquet", groups(2000, 1, 0, 400)),
    "20,000 groups of one row": ("parquet", groups(20000, 1, 0, 400)),
}


def read_by_pyarrow(kind, path):
    """Reads all texts, a row group or a batch at a time."""
    from pyarrow import feather as arrow
    from pyarrow import parquet

    if kind == "arrow":
        return arrow.read_table(path, columns=["text"]).column("text").to_pylist()
    file = parquet.ParquetFile(path)
    for group in range(file.num_row_groups):
        file.read_row_group(group, columns=["text"]).column("text").to_pylist()


def measured(command):
    """The CPU seconds of a process and its peak of memory in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    problem = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{problem}{command} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="target/release/millstream")
    parser.add_argument("--out")
    parser.add_argument("--pyarrow", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pyarrow:
        return read_by_pyarrow(*options.pyarrow)
    lines = ["| file | stored MB | peak MiB | `check` says MiB | CPU s | pyarrow's CPU s |", "|---|---:|---:|---:|---:|---:|"]
    for name, (kind, write) in FILES.items():
        script.say(name)
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, f"table.{kind}")
            # In a process of its own: memory that Python has touched counts for its children too.
            if (child := os.fork()) == 0:
                write(path)
                os._exit(0)
            os.waitpid(child, 0)
            config = os.path.join(place, "config.json")
            pipeline = {"memory": MEMORY, "epochs": 1, "seq_len": 1024, "batch_size": 16}
            source = {"kind": kind, "paths": [path], "field": "text"}
            script.save(config, json.dumps({"source": [source], "tokenizer": {"kind": "bytes"}, "pipeline": pipeline}))
            said = json.loads(script.output_of([options.bin, "check", config, "--json"]))["memory"]
            seconds, peak = measured([options.bin, "digest", config, "--batches", "100000000"])
            theirs, _ = measured([sys.executable, __file__, "--pyarrow", kind, path])
            idle, _ = measured([sys.executable, "-c", "import pyarrow.feather, pyarrow.parquet"])
            cells = [name, f"{os.path.getsize(path) / 1e6:.1f}", peak >> 20, said >> 20, f"{seconds:.2f}", f"{max(theirs - idle, 0):.2f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |")
            print(lines[-1], flush=True)
    table = "\n".join(lines) + "\n"
    print(f"\n{table}", end="")
    if options.out:
        script.save(options.out, table)


if __name__ == "__main__":
    main()
