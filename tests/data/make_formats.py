"""Makes tests/data/formats: the same texts in tables, archives and shards, and what they are in texts.json.

    pip install pyarrow mosaicml-streaming && python tests/data/make_formats.py
"""

import io
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from streaming import MDSWriter

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
    })
(HERE / "texts.json").write_text(json.dumps(rows, ensure_ascii=False, indent=0))

table = pa.Table.from_pylist(rows)
pq.write_table(table, HERE / "snappy.parquet", row_group_size=25)
pq.write_table(table, HERE / "zstd.parquet", row_group_size=60, compression="zstd", data_page_size=256, version="2.6", data_page_version="2.0")
pq.write_table(table, HERE / "gzip.parquet", row_group_size=7, compression="gzip", use_dictionary=False)
large = table.set_column(3, "text", table["text"].cast(pa.large_string()))
pq.write_table(large, HERE / "brotli.parquet", row_group_size=25, compression="brotli")

dictionary = table.set_column(3, "text", table["text"].dictionary_encode())
options = {
    "stream.arrow": (pa.ipc.new_stream, table, None),
    "file.arrow": (pa.ipc.new_file, table, None),
    "lz4.arrow": (pa.ipc.new_stream, table, "lz4"),
    "zstd.arrow": (pa.ipc.new_file, table, "zstd"),
    "dictionary.arrow": (pa.ipc.new_stream, dictionary.combine_chunks(), None),
}
for name, (writer, of, compression) in options.items():
    with writer(str(HERE / name), of.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(of, max_chunksize=13)


def archive(name, format):
    with tarfile.open(HERE / name, "w", format=format) as tar:
        def add(path, data, kind=tarfile.REGTYPE):
            info = tarfile.TarInfo(path)
            info.size, info.type = len(data), kind
            tar.addfile(info, io.BytesIO(data))

        add("samples", b"", tarfile.DIRTYPE)
        for row in rows[:12]:
            # Names that are too long for a header's field have headers of their own.
            key = f"samples/{'long/' * (30 if row['id'] % 6 == 5 else 1)}{row['id']:05}"
            add(f"{key}.json", json.dumps(row).encode())
            add(f"{key}.jpg", bytes(range(256)))
            if row["text"] is not None:
                add(f"{key}.txt", row["text"].encode())


archive("gnu.tar", tarfile.GNU_FORMAT)
archive("pax.tar", tarfile.PAX_FORMAT)

for name, compression in [("mds", None), ("mds-zstd", "zstd")]:
    columns = {"id": "int", "text": "str", "meta": "json", "raw": "bytes"}
    with MDSWriter(out=str(HERE / name), columns=columns, compression=compression, size_limit=1500) as out:
        for row in rows[:30]:
            text = row["text"] or ""
            out.write({"id": row["id"], "text": text, "meta": {"doc": row["doc"] or {}}, "raw": text.encode()})
