"""Which loaders there are, in the order of the table."""

LABELS = {
    "millstream": "**Millstream**",
    "millstream_rows": "**Millstream, finished rows**",
    "plain": "one Python loop",
    "pytorch": "PyTorch DataLoader",
    "hf_datasets": "Hugging Face datasets",
    "grain": "Grain",
    "nodes": "torchdata nodes",
    "spdl": "SPDL",
    "memmap": "numpy memmap, gathered",
    "nanogpt": "nanoGPT's memmap loop",
    "mosaic": "MosaicML Streaming",
    "litdata": "LitData",
}
ONLINE = ("plain", "pytorch", "hf_datasets", "grain", "nodes", "spdl")
SHARDS = ("memmap", "nanogpt", "nodes", "spdl", "pytorch", "grain", "litdata", "mosaic")
# Millstream's own, each with what it reads.
OWN_TURNS = (("online", "millstream", "own"), ("shards", "millstream", None), ("shards", "millstream_rows", None))
# The loaders that write shards of their own before they read them.
PREPARED = ("mosaic", "litdata")

ENGINES = {"released": "tokenizers", "tiktoken": "tiktoken", "pre": "tokenizers 1.0 pre-release"}
OWN = "its own"
