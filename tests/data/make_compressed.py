"""Writes compressed/: one text, as other people's programs compress it.

Run it here, with zstandard and pyzstd from PyPI (written with 0.25 and 0.20), and with the programs gzip,
bzip2, xz, zstd and pzstd.
"""

import bz2
import gzip
import lzma
import os
import random
import struct
import subprocess

import pyzstd
import zstandard

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "compressed"))
random.seed(4)
words = ["meal", "flour", "bran", "grist", "weir", "sluice", "Mühle", "粉", "runner", "bedstone"]
lines = [f"{i}: {' '.join(random.choices(words, k=random.randint(1, 12)))}\n" for i in range(240)]
text = "".join(lines).encode()
parts = [text[at : at + 3000] for at in range(0, len(text), 3000)]
whole_lines = ["".join(lines[at : at + 60]).encode() for at in range(0, len(lines), 60)]


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


write("text.txt", text)
member = lambda part: gzip.compress(part, mtime=0)
write("one.gz", member(text))
write("members.gz", b"".join(map(member, [b""] + parts + [b""])) + bytes(512))
write("streams.bz2", b"".join(map(bz2.compress, parts[:2] + [b""] + parts[2:])))
write("streams.xz", (b"\0" * 8).join(lzma.compress(part, preset=0) for part in parts) + b"\0" * 4)

sized = zstandard.ZstdCompressor(write_content_size=True, write_checksum=True)
write("sized.zst", b"".join(map(sized.compress, whole_lines)))
write("sized_parts.zst", b"".join(map(sized.compress, parts)))


def streamed(part):
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(part) + packer.flush()


write("streamed.zst", b"".join(map(streamed, parts)) + struct.pack("<II", 0x184D2A53, 7) + b"a note.")
with pyzstd.SeekableZstdFile("seekable.zst", "w", max_frame_content_size=3000) as file:
    file.write(text)


def run(name, *command):
    write(name, subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout)


run("program.gz", "gzip", "-9")
run("program.bz2", "bzip2", "-1")
run("program.xz", "xz", "-0", "--block-size=4096", "--check=sha256")
run("program.zst", "zstd", "-3", "--check")
subprocess.run(["pzstd", "-q", "-f", "-p", "2", "text.txt", "-o", "pzstd.zst"], check=True)
