"""Makes tests/data/formats: the same rows in tables, archives and shards, what they are in rows.json, and in
documents.json the texts that the programs' own readers find in each file.

    pip install pyarrow polars mosaicml-streaming webdataset && python tests/data/make_formats.py
"""

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import webdataset
from streaming import MDSWriter
from streaming.base.format.mds import MDSReader

HERE = Path(__file__).parent / "formats"
shutil.rmtree(HERE, ignore_errors=True)
HERE.mkdir()

rows = []
for i in range(60):
    rows.append({
        "id": i,
        "lang": ["en", "de", "fr"][i % 3],
        "score": None if i % 10 == 9 else i / 4,
        "text": None if i % 20 == 7 else "" if i % 20 == 8 else f"row {i}, “{'word ' * (i % 5)}”\nsecond line",
        "doc": None if i == 30 else {"title": f"title {i}", "body": {"text": f"deep {i}"}},
        "quality": i % 5,
        "hash": (i * 0x9E3779B97F4A7C15) % 2**64,
        "day": f"2024-01-{i % 28 + 1:02}",
    })
(HERE / "rows.json").write_text(json.dumps(rows, ensure_ascii=False, indent=0) + "\n")
documents = {}


def texts(values):
    return [value for value in values if value]


# Parquet.
days = pa.array([row["day"] for row in rows]).cast(pa.timestamp("s"))
hashes = pa.array([row["hash"] for row in rows], pa.uint64())
plain = pa.Table.from_pylist([{k: v for k, v in row.items() if k not in ("hash", "day")} for row in rows])
table = plain.append_column("hash", hashes).append_column("day", days)


def typed(kind):
    return table.set_column(3, "text", table["text"].cast(kind))


parquets = {
    "snappy": (table, dict(row_group_size=25)),
    "zstd": (table, dict(compression="zstd", data_page_size=256, version="2.6", data_page_version="2.0")),
    "gzip": (table, dict(row_group_size=17, compression="gzip", use_dictionary=False)),
    "brotli": (typed(pa.large_string()), dict(row_group_size=25, compression="brotli")),
    "lz4": (typed(pa.string_view()), dict(row_group_size=25, compression="lz4")),
    "binary": (typed(pa.binary()), dict(row_group_size=25, compression="none")),
    "dictionary": (table.set_column(3, "text", table["text"].dictionary_encode()), dict(row_group_size=40)),
    "empty": (table.slice(0, 0), {}),
}
for name, (of, options) in parquets.items():
    path = HERE / f"{name}.parquet"
    pq.write_table(of, path, **options)
    documents[path.name] = texts(str(pq.read_table(path)["text"].cast(pa.binary())[i].as_py() or b"", "utf8") for i in range(of.num_rows))


# Arrow.
def chunked(chunks):
    of = pa.chunked_array([pa.array(chunk).dictionary_encode() for chunk in chunks])
    return table.set_column(3, "text", of)


values = table["text"].to_pylist()
replaced = chunked([values[:20], values[20:35], values[35:]])
growing = list(dict.fromkeys(values[:20])), list(dict.fromkeys(values))
growing = [[value for value in part if value is not None] for part in growing]
delta = pa.chunked_array([
    pa.DictionaryArray.from_arrays(pa.array([g.index(v) if v is not None else None for v in part], pa.int32()), pa.array(g))
    for g, part in [(growing[0], values[:20]), (growing[1], values[20:])]
])
arrows = {
    "stream": (pa.ipc.new_stream, table, {}),
    "file": (pa.ipc.new_file, table, {}),
    "lz4": (pa.ipc.new_stream, table, dict(compression="lz4")),
    "zstd": (pa.ipc.new_file, table, dict(compression="zstd")),
    "legacy": (pa.ipc.new_stream, table, dict(use_legacy_format=True)),
    "view": (pa.ipc.new_stream, typed(pa.string_view()), {}),
    "replaced": (pa.ipc.new_stream, replaced, {}),
    "delta": (pa.ipc.new_stream, table.set_column(3, "text", delta), dict(emit_dictionary_deltas=True)),
}
for name, (writer, of, options) in arrows.items():
    path = HERE / f"{name}.arrow"
    with writer(str(path), of.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(of, max_chunksize=13)
    read = pa.ipc.open_file(path) if name in ("file", "zstd") else pa.ipc.open_stream(path)
    documents[path.name] = texts(read.read_all()["text"].to_pylist())
# polars puts its schema before the messages in a way of its own: only the footer tells where they are.
pl.from_arrow(table).write_ipc(HERE / "polars.arrow", record_batch_size=13)
documents["polars.arrow"] = texts(pl.read_ipc(HERE / "polars.arrow")["text"].to_list())
# Its dictionaries lie behind the batches.
categories = pl.from_arrow(table).with_columns(pl.col("text").cast(pl.Categorical))
categories.write_ipc(HERE / "polars_categorical.arrow", record_batch_size=13)
documents["polars_categorical.arrow"] = documents["polars.arrow"]


# Tar.
def found(path):
    samples = webdataset.tarfile_to_samples()([{"url": str(path)}])
    return texts(sample.get("txt", b"").decode() for sample in samples)


def archive(name, format, mode):
    with tarfile.open(HERE / name, mode, format=format) as tar:
        def add(path, data, kind=tarfile.REGTYPE):
            info = tarfile.TarInfo(path)
            info.size, info.type = len(data), kind
            tar.addfile(info, io.BytesIO(data))

        add("samples", b"", tarfile.DIRTYPE)
        add("README", b"a file without an extension")
        for row in rows[:8]:
            # Names that are too long for a header's field have headers of their own.
            key = f"samples/{'long/' * (30 if row['id'] % 6 == 5 else 1)}{row['id']:05}"
            add(f"{key}.json", json.dumps(row).encode())
            add(f"{key}.jpg", bytes(range(256)) * 3)
            if row["text"] is not None:
                add(f"{key}.txt", row["text"].encode())
    documents[name] = found(HERE / name)


archive("gnu.tar", tarfile.GNU_FORMAT, "w")
archive("pax.tar.gz", tarfile.PAX_FORMAT, "w:gz")
with webdataset.TarWriter(str(HERE / "webdataset.tar")) as out:
    for row in rows[:6]:
        out.write({"__key__": f"{row['id']:03}", "json": row, "txt": row["text"] or ""})
documents["webdataset.tar"] = found(HERE / "webdataset.tar")
with tempfile.TemporaryDirectory() as directory:
    for name, text in [("1.txt", "one"), ("2.bin", ""), ("3.txt", "three")]:
        (Path(directory) / name).write_text(text)
    with open(Path(directory) / "2.bin", "wb") as hole:
        for at in range(6):
            hole.seek(at * 200_000)
            hole.write(b"x")
        hole.truncate(2_000_000)
    subprocess.run(["tar", "-C", directory, "-cSf", HERE / "sparse.tar", "1.txt", "2.bin", "3.txt"], check=True)
with tarfile.open(HERE / "sparse.tar") as tar:
    documents["sparse.tar"] = [tar.extractfile(name).read().decode() for name in ["1.txt", "3.txt"]]


# MDS.
for name, compression in [("mds", None), ("mds-zstd", "zstd"), ("mds-gz", "gz")]:
    columns = {"id": "int", "text": "str", "meta": "json", "raw": "bytes"}
    with MDSWriter(out=str(HERE / name), columns=columns, compression=compression, size_limit=1500) as out:
        for row in rows[:30]:
            text = row["text"] or ""
            out.write({"id": row["id"], "text": text, "meta": {"doc": row["doc"] or {}}, "raw": text.encode()})
    # Their own reader wants shards without compression.
    if compression is None:
        index = json.loads((HERE / name / "index.json").read_text())
        readers = [MDSReader.from_json(str(HERE), name, shard) for shard in index["shards"]]
        read = texts(reader[i]["text"] for reader in readers for i in range(len(reader)))
    documents[name] = read

# Files of the same texts stand together.
groups = {}
for name, found_there in documents.items():
    groups.setdefault(tuple(found_there), []).append(name)
groups = [{"files": files, "texts": texts} for texts, files in groups.items()]
(HERE / "documents.json").write_text(json.dumps(groups, ensure_ascii=False, indent=0) + "\n")
