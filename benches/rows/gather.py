"""numpy's gather of the same rows, as `benches/peers` has it: sixteen by one call, each once an epoch in a random order.

    python3 benches/rows/gather.py IDS STRIDE EPOCHS

IDS is a file of u16 and nothing else, whose rows have STRIDE ids. Prints millions of targets a second.
"""

import sys
import time

import numpy as np

BATCH = 16

path, stride, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows = np.memmap(path, dtype=np.uint16, mode="r").reshape(-1, stride)
targets, began = 0, time.perf_counter()
for epoch in range(epochs):
    order = np.random.default_rng(epoch).permutation(len(rows))
    for at in range(0, len(order), BATCH):
        batch = rows[order[at : at + BATCH]].astype(np.int32)
        targets += batch.shape[0] * (stride - 1)
        int(batch.sum())
print(targets / 1e6 / (time.perf_counter() - began))
