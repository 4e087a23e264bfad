"""The corpus: files of JSON lines, made of source code that lies on this machine. Needs no package."""

import glob
import hashlib
import json
import os


def make(pattern, directory, size, document, files=8):
    """Writes `files` files with `size` bytes of text in all, in documents of at most `document` bytes cut at line ends.

    Which of the matching files are taken, and their order, is by a digest of their paths, so that a part of them is of
    everything there is.
    """
    paths = glob.glob(os.path.expanduser(pattern), recursive=True)
    paths.sort(key=lambda path: hashlib.blake2b(path.encode(), digest_size=8).digest())
    texts = (text for path in paths for text in documents(path, document))
    made, left = [], size
    for number in range(files):
        part, made_path = left // (files - number), os.path.join(directory, f"{number}.jsonl")
        with open(made_path, "w", encoding="utf-8") as file:
            for text in texts:
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
                length = len(text.encode())
                part, left = part - length, left - length
                if part <= 0:
                    break
        made.append(made_path)
    if left > 0:
        raise SystemExit(f"{pattern!r} has only {size - left} bytes of text, not {size}: lower --megabytes, or give --glob")
    return made


def documents(path, size):
    """A file's text in pieces of whole lines; what is no UTF-8 is left out."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = file.read().splitlines(keepends=True)
    except (UnicodeDecodeError, IsADirectoryError):
        return
    piece, length = [], 0
    for line in lines:
        if piece and length + len(line.encode()) > size:
            yield "".join(piece)
            piece, length = [], 0
        piece.append(line)
        length += len(line.encode())
    if piece:
        yield "".join(piece)
