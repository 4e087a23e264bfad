"""What is learned from: given by documents, kept by functions, and seen in labels."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millstream

END = 256


def flags(length: int, ranges: Iterable[tuple[int, int]]) -> list[bool]:
    return [any(start <= at < end for start, end in ranges) for at in range(length)]


def document(number: int) -> Any:
    """Questions and answers of several bytes a character; every fifth document is plain text."""
    question, answer = f"¿Número {number}? ", f"Sí: {'é' * (number % 5)}{number} "
    if number % 5 == 4:
        return question
    learned = [(len(question), len(question) + len(answer))]
    if number % 3 == 0:
        second = 2 * len(question) + len(answer)
        learned.append((second, second + len(answer)))
    return (question + answer) * len(learned), learned


def expected(number: int) -> tuple[list[int], list[bool]]:
    """A document's ids, and whether each is learned from, character by character."""
    made = document(number)
    if isinstance(made, str):
        ids = [*made.encode(), END]
        return ids, [True] * len(ids)
    text, learned = made
    of_characters = flags(len(text), learned)
    of_bytes = [flag for char, flag in zip(text, of_characters) for _ in char.encode()]
    return list(text.encode()), of_bytes


def documents(lane: int, start: int) -> Iterator[Any]:
    return (document(number) for number in range(start, 40))


@pytest.fixture
def rows() -> dict[str, Any]:
    """One document a row, in order."""
    pipeline = {"seq_len": 160, "batch_size": 8, "lanes": 1, "window": 1, "pack": "pad", "shuffle_splits": False}
    return {"tokenizer": {"kind": "bytes", "eos": "<|endoftext|>"}, "pipeline": pipeline}


def loader(config: dict[str, Any], **arguments: Any) -> millstream.Loader:
    return millstream.Loader.from_documents(documents, config=config, **arguments)


def test_only_what_a_document_says_is_learned_from(rows: dict[str, Any]) -> None:
    number = 0
    for batch in loader(rows):
        masks = np.asarray(batch.loss_mask)
        for row, mask in zip(np.asarray(batch.ids), masks):
            ids, learned = expected(number)
            assert row[: len(ids)].tolist() == ids
            assert mask.tolist() == learned[1:] + [False] * (160 - len(ids) + 1), number
            number += 1
        assert batch.tokens == masks.sum()
    assert number == 40


def test_a_resume_has_the_same_masks(rows: dict[str, Any]) -> None:
    rows["pipeline"].update(pack="best_fit", window=8, batch_size=2)
    whole = [(np.asarray(batch.loss_mask).tolist(), batch.digest, batch.cursor) for batch in loader(rows)]
    assert len(whole) > 2
    for at, (_, _, cursor) in enumerate(whole):
        rest = [(np.asarray(batch.loss_mask).tolist(), batch.digest) for batch in loader(rows, cursor=cursor)]
        assert rest == [(mask, digest) for mask, digest, _ in whole[at + 1 :]]


def test_a_function_says_what_becomes_of_a_mask(rows: dict[str, Any]) -> None:
    with pytest.raises(millstream.Error, match=r"marks=True"):
        list(loader(rows).map(str.upper))
    # It may leave a text as it is, and change those that have no mask.
    assert len(list(loader(rows).map(lambda text: text if ":" in text else text.upper(), name="plain"))) == 5

    def quoted(text: str, learned: list[tuple[int, int]], special: list[tuple[int, int]]) -> Any:
        assert special == []
        return f"«{text}»", [(start + 1, end + 1) for start, end in learned], special

    quotes = loader(rows).map(quoted, marks=True)
    ours, theirs = (b for b in (list(loader(rows)), list(quotes)))
    number = 0
    for plain, batch in zip(ours, theirs, strict=True):
        for mask, longer in zip(np.asarray(plain.loss_mask), np.asarray(batch.loss_mask)):
            if number % 5 != 4:
                # The first quotation mark has two bytes.
                assert longer.tolist() == [False] * 2 + mask.tolist()[:-2]
            number += 1


def test_texts_may_be_conversations(rows: dict[str, Any], tmp_path: Path, caplog: Any) -> None:
    rows["pipeline"]["epochs"] = 1
    template = tmp_path / "chat.jinja"
    body = "{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}"
    template.write_text("{% for m in messages %}<{{ m.role }}>" + body + "{% endfor %}")
    turn = {"begin": "<assistant>", "end": "<|endoftext|>"}
    source = {"task": "chat", "chat": {"template": template, "turn": turn}, "on_error": {"skip": 1}}

    def chat(n: int) -> dict[str, Any]:
        turns = [("user", f"número {n}?"), ("assistant", "sí")]
        return {"messages": [{"role": role, "content": content} for role, content in turns]}

    records = [chat(0), json.dumps(chat(1)), "not JSON", {"messages": chat(2)["messages"][:1]}]
    loader = millstream.Loader.from_texts(records, source=source, config=rows)
    learned = ["sí".encode(), END]
    for again in (loader, pickle.loads(pickle.dumps(loader))):
        (batch,) = list(again)
        ids, masks = np.asarray(batch.ids), np.asarray(batch.loss_mask)
        for n, (row, mask) in enumerate(zip(ids, masks, strict=True)):
            assert bytes(row[: row.tolist().index(END)].tolist()).decode() == f"<user>número {n}?<assistant>sí"
            assert row[1:][mask].tolist() == [*learned[0], learned[1]]
        assert len(ids) == 2
    assert "oldest messages" not in caplog.text
    long = {"messages": chat(3)["messages"] * 50}
    list(millstream.Loader.from_texts([chat(0), long, long], source=source, config=rows))
    (said,) = [record.getMessage() for record in caplog.records if "oldest messages are left out" in record.getMessage()]
    assert "row=1" in said and "source.0.chat.truncate" in said

    def refused(match: str, source: Any) -> None:
        with pytest.raises(millstream.ConfigError, match=match):
            millstream.Loader.from_texts(records, source=source, config=rows)

    refused("source.0.tsk", {"tsk": "chat"})
    refused("source.0.where", {"where": "lang = 'de'", "task": "fim"})
    for wrong, error in [(None, TypeError), ({"task": "fim"}, TypeError), ({**source, "paths": ["/nope"]}, ValueError)]:
        with pytest.raises(error):
            millstream.Loader.from_texts(records, source=wrong, config=rows)
    refused("source.0.chat.date", {"task": "chat", "chat": {"date": "today"}})
    with pytest.raises(millstream.ConfigError, match="no chat template"):
        list(millstream.Loader.from_texts(records, source={"task": "chat"}, config=rows))


@pytest.mark.parametrize("learned", [[(3, 2)], [(0, 4), (3, 5)], [(2, 99)], [(4, 5), (0, 1)]])
def test_ranges_that_are_none_are_refused(rows: dict[str, Any], learned: Any) -> None:
    def wrong(lane: int, start: int) -> Iterator[Any]:
        return iter([("an é text", learned)])

    with pytest.raises(millstream.Error, match="learned"):
        list(millstream.Loader.from_documents(wrong, config=rows))


def test_labels_are_the_learned_ids(rows: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    from millstream.torch import Dataset

    rows["pipeline"].update(pack="best_fit", window=8)
    names: list[Any] = ["dict", "hf", "torchtitan", "padding_free"]
    formats = [Dataset(loader(rows), format=name) for name in names]
    for batch, plain, hf, (_, titan), flat in zip(loader(rows), *formats, strict=True):
        ids, mask = np.asarray(batch.ids), np.asarray(batch.loss_mask)
        assert 0 < mask.sum() < mask.size
        labels = np.where(mask, ids[:, 1:], -100)
        assert plain["labels"].tolist() == titan.tolist() == hf["labels"][:, 1:].tolist() == labels.tolist()
        assert (hf["labels"][:, 0] == -100).all()
        lengths = np.asarray(batch.lengths)
        assert flat["input_ids"].tolist() == [[id for row, n in zip(ids.tolist(), lengths) for id in row[:n]]]
        whole = [label for row, n in zip(hf["labels"].tolist(), lengths) for label in row[:n]]
        assert flat["labels"].tolist() == [whole]
        starts = [0, *np.cumsum([piece.stop - piece.start for piece in batch.pieces])]
        assert flat["cu_seq_lens_q"].tolist() == flat["cu_seq_lens_k"].tolist() == starts
        assert flat["cu_seq_lens_q"].dtype == torch.int32
        assert flat["max_length_q"] == flat["max_length_k"] == np.diff(starts).max()
        assert (flat["labels"][0, torch.tensor(starts[:-1])] == -100).all()


def test_the_loss_of_transformers_is_that_of_the_learned_ids(rows: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from millstream.torch import Dataset

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=257, **sizes))
    batch, ours = next(iter(Dataset(loader(rows), format="hf"))), next(iter(loader(rows, dtype="int64")))
    with torch.no_grad():
        out = model(**batch, use_cache=False)
        mask = torch.tensor(np.asarray(ours.loss_mask))
        targets = torch.tensor(np.asarray(ours.targets))
        loss = torch.nn.functional.cross_entropy(out.logits[:, :-1][mask], targets[mask])
    assert out.loss.item() == pytest.approx(loss.item(), rel=1e-5)
