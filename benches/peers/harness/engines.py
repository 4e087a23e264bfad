"""The tokenizers that Python's loaders can have: each turns a list of texts into one run of int32 ids, eos after each.

All are told to take special tokens that stand in a text as text.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np

NAMES = ("released", "pre", "tiktoken", "gigatoken", "own")


class Released:
    """The released wheel of Hugging Face tokenizers."""

    def __init__(self, work):
        from tokenizers import Tokenizer

        self.eos, self.tokenizer = work.eos, Tokenizer.from_file(work.tokenizer)
        self.tokenizer.encode_special_tokens = True

    def encode(self, texts):
        ids = []
        for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            ids += encoding.ids
            ids.append(self.eos)
        return np.array(ids, dtype=np.int32)

    def encode_on(self, threads, texts):
        """The same on so many threads; it is the library's own pool, which knows only one or all."""
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        return self.encode(texts)


class OneByOne:
    """An engine that encodes one text to an array, without Python's lock."""

    def __init__(self, work):
        self.end = np.array([work.eos], dtype=np.int32)
        self.pool = None

    def encode(self, texts):
        runs = []
        for text in texts:
            runs += (self.one(text).view(np.int32), self.end)
        return np.concatenate(runs)

    def encode_on(self, threads, texts):
        """The same on so many threads, a part of the texts each."""
        if threads == 1:
            return self.encode(texts)
        if self.pool is None:
            self.pool = ThreadPoolExecutor(threads)
        part = -(-len(texts) // threads)
        parts = [texts[at : at + part] for at in range(0, len(texts), part)]
        return np.concatenate(list(self.pool.map(self.encode, parts)))


class Pre(OneByOne):
    """The 1.0 pre-release of tokenizers. Texts go in one by one: its batches bring a thread pool that spins."""

    def __init__(self, work):
        super().__init__(work)
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(work.tokenizer)

    def one(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False, encode_special_tokens=True).ids_array


class Tiktoken(OneByOne):
    """tiktoken, on the vocabulary of the tokenizer.json: its ids are the ranks of the merges."""

    def __init__(self, work):
        super().__init__(work)
        import tiktoken

        pattern, ranks, special = published(work.tokenizer)
        self.encoding = tiktoken.Encoding("peers", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)

    def one(self, text):
        return self.encoding.encode_to_numpy(text, disallowed_special=())


class Gigatoken:
    """gigatoken, on the tokenizer.json without its list of special tokens, so that all text is text.

    Its call for one text holds Python's lock, and its batches hold a lock of their tokenizer: so it is batches, and a
    tokenizer for each thread. Those that come padded are faster than those that come as an array of Awkward.
    """

    def __init__(self, work):
        import gigatoken

        with open(work.tokenizer, encoding="utf-8") as file:
            described = json.dumps({**json.load(file), "added_tokens": []})
        self.eos, self.free = work.eos, SimpleQueue()
        for _ in range(work.workers):
            self.free.put(gigatoken.Tokenizer.from_json(described))

    def encode(self, texts):
        tokenizer = self.free.get()
        try:
            rows, lengths = tokenizer.encode_batch_padded(texts, self.eos, suffix=[self.eos], parallel=False)
        finally:
            self.free.put(tokenizer)
        return np.concatenate([row[:length] for row, length in zip(rows, lengths.tolist())]).view(np.int32)


def published(path):
    """The pattern, the ranks and the special tokens of a byte-level BPE whose ids are in the order of its merges."""
    with open(path, encoding="utf-8") as file:
        described = json.load(file)
    special = {token["content"]: token["id"] for token in described["added_tokens"] if token["special"]}
    letters = byte_letters()
    ranks = {
        bytes(letters[letter] for letter in token): rank
        for token, rank in described["model"]["vocab"].items()
        if token not in special
    }
    return split_pattern(described["pre_tokenizer"]), ranks, special


def split_pattern(cutter):
    steps = cutter.get("pretokenizers", [cutter])
    return next(step["pattern"]["Regex"] for step in steps if step["type"] == "Split")


def byte_letters():
    """Which byte each letter of the byte-level spelling stands for, as GPT-2 published it."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + nth): byte for nth, byte in enumerate(others)}


def load(name, work):
    """An engine by its name; a loader that brings its own needs none."""
    kinds = {"released": Released, "pre": Pre, "tiktoken": Tiktoken, "gigatoken": Gigatoken}
    return kinds[name](work) if name in kinds else None
