"""Tokenizers of other packages give the same ids here."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [f"The mill grinds {n} sacks of corn, isn't it so?\n\tYes: {n * n}!" for n in range(300)]


@pytest.fixture(scope="module")
def trained() -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def loader(config: dict[str, Any], tokenizer: Any, cursor: Any = None) -> millstream.Loader:
    if isinstance(tokenizer, Path):
        tokenizer = {"path": tokenizer, "eos": "<|endoftext|>"}
    tables = {"tokenizer": {"eos": "<|endoftext|>"}, "pipeline": config["pipeline"]}
    return millstream.Loader.from_texts(TEXTS, config=tables, tokenizer=tokenizer, cursor=cursor)


def digests(loader: Any) -> list[str]:
    return [batch.digest for batch in loader]


def test_a_tokenizer_object_gives_the_ids_of_its_file(config: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(str(path))
    expected = digests(loader(config, path))
    assert len(expected) > 10 and digests(loader(config, trained)) == expected
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=trained, pad_token="<|endoftext|>")
    assert digests(loader(config, fast)) == expected
    # What it was used for before changes nothing.
    cursor = next(iter(loader(config, fast))).cursor
    fast(TEXTS[:2], padding=True, truncation=True, max_length=8)
    assert digests(loader(config, fast, cursor)) == expected[1:]


def test_a_transformers_tokenizer_brings_its_template_and_tokens(trained: Any) -> None:
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, bos_token="<s>", eos_token=tokenizers.AddedToken("<|endoftext|>", special=True)
    )
    answers = "{% for m in messages %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% endfor %}"
    conversations = [[{"role": "assistant", "content": text}] for text in TEXTS]
    pipeline = {"seq_len": 64, "batch_size": 4, "pack": "pad", "epochs": 1}

    def ours(cursor: Any = None, **chat: str) -> Any:
        records = ({"messages": messages} for messages in conversations)
        source, config = {"task": "chat", "chat": chat}, {"pipeline": pipeline}
        return millstream.Loader.from_texts(records, source=source, config=config, tokenizer=fast, cursor=cursor)

    def rendered(messages: list[dict[str, str]], name: str | None) -> list[int]:
        text = fast.apply_chat_template(messages, tokenize=False, chat_template=name)
        return list(fast.encode(text, add_special_tokens=False))

    cursors = []
    default = "{{ bos_token }}" + answers
    for template, name in ((default, None), ({"default": default, "b": answers}, "b")):
        fast.chat_template = template
        batches = list(ours(**({"template_name": name} if name else {})))
        rows = sorted(row.tolist() for batch in batches for row in np.asarray(batch.ids) if row.any())
        theirs = sorted(rendered(messages, name) for messages in conversations)
        assert len(rows) == len(theirs) and all(row[: len(ids)] == ids for row, ids in zip(rows, theirs))
        cursors.append(batches[0].cursor)
    # Another template gives other ids.
    assert next(iter(ours(cursors[0])))
    with pytest.raises(millstream.FingerprintError, match=r"chat\.template"):
        next(iter(ours(cursors[1])))


def test_a_tokenizer_object_and_its_file_resume_each_other(config: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(str(path))
    for one, other in ((trained, path), (path, trained)):
        batches = iter(loader(config, one))
        cursor = next(batches).cursor
        assert digests(loader(config, other, cursor)) == digests(batches)


def test_later_loops_have_the_tokenizer_of_the_first(config: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(str(path))
    expected = digests(loader(config, path))
    left = loader(config, path)
    next(iter(left))
    path.unlink()
    assert digests(left) == expected[1:]
    # Another process opens its own.
    with pytest.raises(millstream.Error, match=r"tokenizer\.json"):
        digests(pickle.loads(pickle.dumps(left))._resumed(None))

    pytest.importorskip("torch")
    from millstream.torch import Dataset

    trained.save(str(path))
    dataset = Dataset(loader(config, path))
    first = [batch["inputs"].tolist() for batch in dataset]
    path.unlink()
    assert [batch["inputs"].tolist() for batch in dataset] == first and len(first) == len(expected)


def test_a_function_gives_them_too_and_says_that_it_is_slow(config: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(str(path))

    class Function:
        vocab_size = 600
        token_to_id = staticmethod(trained.token_to_id)

        def __call__(self, text: str) -> list[int]:
            return list(trained.encode(text, add_special_tokens=False).ids)

    with pytest.warns(RuntimeWarning, match="Function is a Python function"):
        slow = loader(config, Function())
    assert digests(slow) == digests(loader(config, path))

    def fails(text: str) -> list[int]:
        raise OverflowError("too long")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        broken = millstream.Loader.from_texts(TEXTS, config={"pipeline": config["pipeline"]}, tokenizer=fails)
    with pytest.raises(millstream.Error, match="too long") as e:
        digests(broken)
    assert isinstance(e.value.__cause__, OverflowError)


def test_tiktokens_encodings_are_converted(config: dict[str, Any]) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)}
    for rank, token in enumerate((b"th", b"the", b" m", b"in", b"ill", b" mill", b"Th", b"The"), 256):
        ranks[token] = rank
    encoding = tiktoken.Encoding(
        "small",
        pat_str=r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 300},
    )
    opened = loader(config, encoding)
    ids = [id for batch in opened for row in batch.ids.tolist() for id in row]
    assert ids.count(300) >= len(TEXTS)
    assert opened.tokenizer is not None
    assert opened.tokenizer.encode("The mill in") == encoding.encode("The mill in")


def test_what_is_no_tokenizer_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a tokenizer is a path"):
        millstream.Loader(config, tokenizer=7)
    with pytest.raises(millstream.ConfigError, match="there is no file /no/tokenizer.json"):
        next(iter(loader(config, Path("/no/tokenizer.json"))))
