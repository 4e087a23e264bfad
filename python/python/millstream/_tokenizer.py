"""Tokenizers of other packages: turned into what the loader runs."""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ._millstream import ranks_to_json

_FILE = "tokenizer.json"

MOST_IDS = 2**31 - 1

PROBE = "The miller's 3 mills ground 12,345 sacks; naïve cafés, мельница, 風車 😀\n\tdef grind(self):\n"


class Called:
    """A Python function from a text to its ids, and what else is known of it."""

    def __init__(self, tokenizer: Callable[[str], Iterable[int]]) -> None:
        encode = getattr(tokenizer, "encode", None)
        self.encode = tokenizer if encode is None or callable(tokenizer) else encode
        self.decode: Callable[[list[int]], str] | None = getattr(tokenizer, "decode", None)
        self.id: Callable[[str], int | None] | None = getattr(tokenizer, "token_to_id", None)
        size = getattr(tokenizer, "vocab_size", getattr(tokenizer, "n_vocab", None))
        self.vocab_size = size if isinstance(size, int) else MOST_IDS
        named = tokenizer if hasattr(tokenizer, "__qualname__") else type(tokenizer)
        self.name = f"{getattr(named, '__module__', 'builtins')}.{getattr(named, '__qualname__', '')}"
        self.fingerprint = f"{self.name}/{self.vocab_size}/{self._digest()}"

    def _digest(self) -> str:
        """Of the ids of some text: two tokenizers of one name are told apart."""
        try:
            ids = [int(id) for id in self.encode(PROBE)]
        except Exception:
            # The loop will say what is wrong.
            return "none"
        return hashlib.blake2b(repr(ids).encode(), digest_size=8).hexdigest()


def converted(tokenizer: Any) -> dict[str, str] | Called:
    """The texts of the files of a tokenizer that gives the same ids, by their names, or the function that makes them."""
    # A transformers tokenizer holds one of the package tokenizers.
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str") and hasattr(backend, "get_vocab"):
        # As its `save` writes it, and without what a call for other texts may have left.
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        files = {_FILE: str(copy.to_str(pretty=True))}
        return files if backend is tokenizer else {**files, "tokenizer_config.json": _config(tokenizer)}
    if hasattr(tokenizer, "_mergeable_ranks") and hasattr(tokenizer, "_pat_str"):
        return {_FILE: _of_tiktoken(tokenizer)}
    if hasattr(tokenizer, "backend_tokenizer") or hasattr(tokenizer, "convert_tokens_to_ids"):
        raise TypeError(
            f"{type(tokenizer).__name__} is a slow tokenizer of transformers; load it with use_fast=True, or pass its "
            "`encode` function, which is called text by text"
        )
    if callable(tokenizer) or hasattr(tokenizer, "encode"):
        called = Called(tokenizer)
        warnings.warn(
            f"the tokenizer {called.name} is a Python function: it is called text by text, with the GIL, and limits "
            "the loader to its speed. A tokenizer.json, tokenizers.Tokenizer or tiktoken.Encoding runs in Rust.",
            RuntimeWarning,
            stacklevel=3,
        )
        return called
    raise TypeError(
        f"a tokenizer is a path, a dict of [tokenizer], a tokenizers.Tokenizer, a fast tokenizer of transformers, a "
        f"tiktoken.Encoding or a function from a text to its ids, not {type(tokenizer).__name__}"
    )


def _config(tokenizer: Any) -> str:
    """What chat templates need of a transformers tokenizer: the templates, and the special tokens by their names."""
    tokens = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    return json.dumps({**tokens, "chat_template": getattr(tokenizer, "chat_template", None)})


def _of_tiktoken(encoding: Any) -> str:
    lines = (f"{base64.b64encode(token).decode()} {rank}" for token, rank in encoding._mergeable_ranks.items())
    return ranks_to_json(encoding.name, "\n".join(lines) + "\n", encoding._pat_str, dict(encoding._special_tokens))
