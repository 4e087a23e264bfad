"""Which loaders there are, in the order of the table."""

LABELS = {
    "millstream": "**Millstream**",
    "millstream_python": "**Millstream, from Python**",
    "gigatoken": "gigatoken in a loop",
    "plain": "one Python loop",
    "pytorch": "PyTorch DataLoader",
    "hf_datasets": "Hugging Face datasets",
    "grain": "Grain",
    "nodes": "torchdata nodes",
    "spdl": "SPDL",
    "nanochat": "nanochat's loader",
    "memmap": "numpy memmap, gathered",
    "nanogpt": "nanoGPT's memmap loop",
    "mosaic": "MosaicML Streaming",
    "litdata": "LitData",
}
ONLINE = ("plain", "pytorch", "hf_datasets", "grain", "nodes", "spdl", "nanochat")
# The loaders that bring a tokenizer of their own.
COMPLETE = (("online", "gigatoken", "gigatoken"),)
SHARDS = ("memmap", "nanogpt", "nodes", "spdl", "pytorch", "grain", "litdata", "mosaic")
# Millstream's own, each with what it reads: the program's, and beside it the same from Python.
OWN_TURNS = (
    ("online", "millstream", "own"),
    ("online", "millstream_python", "own"),
    ("shards", "millstream", None),
    ("shards", "millstream_python", None),
)
# The loaders that write files of their own before they read them.
PREPARED = ("mosaic", "litdata", "nanochat")

# The tokenizers of ONLINE's loaders, and those of the loaders that bring one.
ENGINES = {"released": "tokenizers", "tiktoken": "tiktoken", "pre": "tokenizers 1.0 pre-release"}
OWN = {"own": "its own", "gigatoken": "its own"}
