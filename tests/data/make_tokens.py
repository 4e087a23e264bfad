"""Makes tests/data/tokens: bytes as ids, as nanoGPT's and Megatron's scripts write them with numpy.

    pip install numpy && python tests/data/make_tokens.py
"""

import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "tokens"
HERE.mkdir(exist_ok=True)
EOS = 256
documents = [f"document {i}, {'of words ' * (i % 4)}".encode() for i in range(20)]

for name, dtype in [("nanogpt.bin", np.uint16), ("wide.bin", np.uint32)]:
    ids = [np.array(list(document) + [EOS], dtype=dtype) for document in documents]
    np.concatenate(ids).tofile(HERE / name)

# Every third document is of two sequences.
sequences, bounds = [], [0]
for number, document in enumerate(documents):
    ids = list(document) + [EOS]
    parts = [ids[:5], ids[5:]] if number % 3 == 0 else [ids]
    sequences += [np.array(part, dtype=np.uint16) for part in parts]
    bounds.append(len(sequences))
np.concatenate(sequences).tofile(HERE / "megatron.bin")
lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int32)
pointers = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64) * 2]).astype(np.int64)
with open(HERE / "megatron.idx", "wb") as index:
    index.write(b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", 8))
    index.write(struct.pack("<Q", len(sequences)) + struct.pack("<Q", len(bounds)))
    index.write(lengths.tobytes() + pointers.tobytes() + np.array(bounds, dtype=np.int64).tobytes())
