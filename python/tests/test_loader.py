"""A loader's loops: what they give, where they go on, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import functools
import gc
import http.server
import json
import os
import pickle
import random
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import threads, wait_until

import millstream


def digests(batches: Any, count: int | None = None) -> list[str]:
    return [batch.digest for _, batch in zip(range(count or 10**9), batches)]


def test_every_document_comes_once(config: dict[str, Any], corpus: Path) -> None:
    texts: dict[tuple[str, int], list[tuple[int, list[int]]]] = {}
    for batch in millstream.Loader(config):
        ids = batch.ids.tolist()
        for piece in batch.pieces:
            assert piece.path is not None and piece.unit == "byte" and piece.source == 0
            # A row's first id is the last of the row before.
            texts.setdefault((piece.path, piece.byte), []).append((piece.offset, ids[piece.row][piece.start : piece.stop]))
    expected = {
        (str(path), byte): json.loads(line)["text"]
        for path in corpus.iterdir()
        for byte, line in _lines(path.read_bytes())
    }
    assert texts.keys() == expected.keys()
    for place, pieces in texts.items():
        ids: dict[int, int] = {offset + at: id for offset, run in pieces for at, id in enumerate(run)}
        # The last id ends the document.
        assert bytes(ids[at] for at in range(len(ids) - 1)).decode() == expected[place] and ids[len(ids) - 1] == 256


def _lines(content: bytes) -> list[tuple[int, bytes]]:
    lines, byte = [], 0
    for line in content.splitlines(keepends=True):
        lines.append((byte, line))
        byte += len(line)
    return lines


def test_columns_come_along_with_each_piece(config: dict[str, Any], tmp_path: Path) -> None:
    lang = tmp_path / "lang=en" / "part.jsonl"
    lang.parent.mkdir()
    values = [{"n": n, "score": n / 4 if n % 3 else None, "good": n % 2 == 0} for n in range(40)]
    lang.write_text("".join(json.dumps({"text": f"document {n}", **values[n]}) + "\n" for n in range(40)))
    of_columns = {"kind": "jsonl", "paths": [str(lang)], "field": "text", "columns": ["n", "lang", "score", "good"]}
    config["source"] = [{**config["source"][0], "weight": 1}, {**of_columns, "weight": 1}]
    starts, byte = {}, 0
    for n, line in enumerate(lang.read_bytes().splitlines(keepends=True)):
        starts[byte], byte = n, byte + len(line)
    seen = 0
    for batch in millstream.Loader(config):
        for nth, piece in enumerate(batch.pieces):
            expected = {}
            if piece.source == 1:
                expected = {**values[starts[piece.byte]], "lang": "en"}
                assert list(piece.columns) == ["n", "lang", "score", "good"]
                seen += 1
            assert piece.columns == expected
            assert all(type(piece.columns[name]) is type(value) for name, value in expected.items())
            assert all(column[nth] == expected.get(name) for name, column in batch.columns.items())
        assert all(len(column) == len(batch.pieces) for column in batch.columns.values())
    assert seen >= 40


def test_any_cursor_leads_to_what_follows(config: dict[str, Any]) -> None:
    whole = list(millstream.Loader(config))
    seed = random.randrange(2**32)
    print("seed", seed)
    for at in random.Random(seed).sample(range(len(whole)), 8):
        cursor = pickle.loads(pickle.dumps(whole[at].cursor))
        resumed = list(millstream.Loader(config, cursor=cursor))
        assert [batch.digest for batch in resumed] == [batch.digest for batch in whole[at + 1 :]], at
        assert all(a.cursor == b.cursor for a, b in zip(resumed, whole[at + 1 :]))


def test_a_cursor_accounts_for_each_id(config: dict[str, Any]) -> None:
    learned = 0
    for batch in millstream.Loader(config):
        learned += batch.tokens
        ledger = batch.cursor.ledger()
        sources = [numbers for name, numbers in ledger.items() if name is not None]
        assert sum(numbers["learned"] for numbers in sources) == learned
        assert all(numbers["documents"] > 0 and numbers["masked"] == 0 for numbers in sources)
    assert learned > 0 and ledger[None]["padding"] >= 0


def test_a_cursor_accounts_for_each_id_by_value(config: dict[str, Any], tmp_path: Path) -> None:
    langs = tmp_path / "langs.jsonl"
    documents = [{"text": f"document {n}", "lang": ["en", "de", None][n % 3]} for n in range(60)]
    langs.write_text("".join(json.dumps(document) + "\n" for document in documents))
    of_langs = {"name": "langs", "kind": "jsonl", "paths": [str(langs)], "field": "text", "columns": ["lang"]}
    config["source"] = [{**config["source"][0], "name": "rest", "weight": 1}, {**of_langs, "weight": 1}]
    config["pipeline"]["ledger_by"] = "lang"
    for batch in millstream.Loader(config):
        ledger, by_value = batch.cursor.ledger(), batch.cursor.ledger_by_value()
        for source, values in by_value.items():
            for number in ["documents", "learned", "masked", "first", "cut"]:
                assert sum(numbers[number] for numbers in values.values()) == ledger[source][number]
    assert set(by_value["langs"]) == {"en", "de", "null"} and set(by_value) == {"rest", "langs"}
    del config["pipeline"]["ledger_by"]
    assert next(iter(millstream.Loader(config))).cursor.ledger_by_value() == {}


def test_a_second_loop_goes_on(config: dict[str, Any]) -> None:
    whole = digests(millstream.Loader(config))
    loader = millstream.Loader(config)
    parts = []
    for batch in loader:
        parts.append(batch.digest)
        if len(parts) == 5:
            break
    assert loader.cursor is not None and loader.cursor.batch == 5
    batches = iter(loader)
    parts.append(next(batches).digest)
    # The same stream, while it is open.
    parts.append(next(iter(loader)).digest)
    loader.close()
    assert list(batches) == []
    parts += digests(loader)
    assert parts == whole and digests(loader) == []


def test_loops_leave_no_thread_and_no_file(config: dict[str, Any]) -> None:
    def left() -> bool:
        gc.collect()
        return threads() == before[0] and len(os.listdir("/proc/self/fd")) == before[1]

    digests(millstream.Loader(config))
    before = (threads(), len(os.listdir("/proc/self/fd")))
    loader = millstream.Loader(config)
    for _ in loader:
        break
    wait_until(left, "the end of the threads after break")
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            raise ZeroDivisionError
    wait_until(left, "their end after an exception")
    batches = iter(loader)
    next(batches)
    assert threads() > before[0]
    del batches
    wait_until(left, "their end after del")
    with loader:
        batches = iter(loader)
        next(batches)
    wait_until(left, "their end after with")
    digests(loader)
    wait_until(left, "their end after the last batch")


def test_async_loops_are_the_same_and_cancelling_loses_nothing(config: dict[str, Any]) -> None:
    async def read() -> list[str]:
        found: list[str] = []
        batches = aiter(millstream.Loader(config))
        while True:
            waiting = asyncio.ensure_future(anext(batches, None))
            await asyncio.sleep(0)
            if random.random() < 0.3:
                waiting.cancel()
            try:
                batch = await waiting
            except asyncio.CancelledError:
                continue
            if batch is None:
                return found
            found.append(batch.digest)

    assert asyncio.run(read()) == digests(millstream.Loader(config))


def test_async_loops_that_are_left_end_without_the_collector(config: dict[str, Any]) -> None:
    async def look() -> None:
        async for _ in millstream.Loader(config):
            break

    async def give_up() -> None:
        waiting = asyncio.ensure_future(anext(aiter(millstream.Loader(config))))
        await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.wait([waiting])

    gc.collect()
    before = threads()
    gc.disable()
    try:
        for read in (look, give_up):
            asyncio.run(read())
            wait_until(lambda: threads() == before, "the end of all threads")
    finally:
        gc.enable()


def test_an_async_loop_lets_others_run_while_it_waits(config: dict[str, Any]) -> None:
    is_asked, others_ran = threading.Event(), threading.Event()

    def waits(_: str) -> bool:
        is_asked.set()
        in_time = others_ran.wait(60)
        others_ran.set()
        return in_time

    async def read() -> Any:
        waiting = asyncio.ensure_future(anext(aiter(millstream.Loader(config).filter(waits))))
        while not is_asked.is_set():
            await asyncio.sleep(0.01)
        others_ran.set()
        return await waiting

    # A wait that blocks the event loop would keep the event from being set, and lose the first document.
    assert asyncio.run(read()).digest == digests(millstream.Loader(config), 1)[0]


def test_who_gives_up_waiting_can_close_and_leave(config: dict[str, Any]) -> None:
    given = {"tokenizer": config["tokenizer"], "pipeline": config["pipeline"]}
    program = f"""
        import asyncio, json, threading, millstream

        opened = []
        def stalls(lane, start):
            if lane == 1:
                opened.append(start)
                threading.Event().wait(600)
            return iter(["text"] * 3)

        async def read():
            loader = millstream.Loader.from_documents(stalls, config=json.loads({json.dumps(json.dumps(given))}))
            waiting = asyncio.ensure_future(anext(aiter(loader)))
            while not opened:
                await asyncio.sleep(0.01)
            waiting.cancel()
            try:
                await waiting
            except asyncio.CancelledError:
                print("gave up")
            before = len(opened)
            waiting = asyncio.ensure_future(anext(aiter(loader), None))
            # It opens another stream, or takes the first one if that was opened meanwhile. Both wait.
            for _ in range(200):
                if len(opened) > before:
                    break
                await asyncio.sleep(0.01)
            loader.close()
            print(await waiting)

        asyncio.run(read())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["gave up", "None"], done.stdout + done.stderr


def test_functions_are_not_called_any_more_once_it_is_closed(config: dict[str, Any]) -> None:
    program = f"""
        import json, os, time, millstream

        calls = []
        def slow(text):
            calls.append(text)
            time.sleep(0.02)
            return text

        def threads():
            return len(os.listdir("/proc/self/task"))

        alone = threads()

        loader = millstream.Loader(json.loads({json.dumps(json.dumps(config))})).map(slow)
        for batch in loader:
            break
        # One function runs at a time, and ends. Threads that are gone call none.
        before, end = len(calls), time.monotonic() + 60
        while threads() > alone and time.monotonic() < end:
            time.sleep(0.01)
        print(threads() - alone, len(calls) - before <= 1)
        kept = iter(millstream.Loader(json.loads({json.dumps(json.dumps(config))})).map(slow))
        next(kept)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 True\n", "")


def test_closing_ends_a_loop_that_waits_elsewhere(config: dict[str, Any]) -> None:
    config["pipeline"].pop("epochs")
    is_asked = threading.Event()

    def nothing(_: str) -> bool:
        is_asked.set()
        return False

    loader = millstream.Loader(config).filter(nothing)
    threading.Thread(target=lambda: is_asked.wait(60) and loader.close()).start()
    assert next(iter(loader), None) is None


def test_closing_hands_out_no_batch_that_lacks_documents(config: dict[str, Any]) -> None:
    is_asked, is_closed, asked = threading.Event(), threading.Event(), []

    def encode(text: str) -> list[int]:
        asked.append(text)
        if len(asked) > 200:
            is_asked.set()
            is_closed.wait(60)
        return list(text.encode())

    config["source"][0]["on_error"] = {"skip": 10000}
    config["pipeline"]["window"], config["tokenizer"] = 1, {}
    with pytest.warns(RuntimeWarning, match="is a Python function"):
        whole = digests(millstream.Loader(config, tokenizer=lambda text: list(text.encode())))
        loader = millstream.Loader(config, tokenizer=encode)

    def close() -> None:
        is_asked.wait(60)
        loader.close()
        is_closed.set()

    closing = threading.Thread(target=close)
    closing.start()
    found = digests(loader)
    closing.join()
    assert found == whole[: len(found)] and len(found) < len(whole)
    assert (loader.cursor.batch if loader.cursor else 0) == len(found)


def test_threads_that_share_a_loop_move_its_place_forwards(config: dict[str, Any]) -> None:
    config["pipeline"]["seq_len"] = 16
    loader = millstream.Loader(config).map(str, name="nothing")
    batches, lock = iter(loader), threading.Lock()
    taken: list[int] = []
    behind: list[int] = []

    def take() -> None:
        for batch in batches:
            with lock:
                taken.append(batch.number)
                place = loader.cursor.batch if loader.cursor else 0
                if place <= max(taken):
                    behind.append(place)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert not behind and sorted(taken) == list(range(len(list(millstream.Loader(config)))))
    assert loader.cursor and loader.cursor.batch == len(taken)


def test_threads_that_share_a_loop_do_not_starve_each_other(config: dict[str, Any]) -> None:
    """A thread that found a batch takes it: others that found it too would each begin to wait again, and use up a core."""
    config["pipeline"].update(seq_len=16, batch_size=4)

    def taken_by(count: int) -> tuple[list[str], float]:
        loop = iter(millstream.Loader(config))
        taken: list[str] = []

        def take() -> None:
            taken.extend(batch.digest for batch in loop)

        began = time.process_time()
        takers = [threading.Thread(target=take, daemon=True) for _ in range(count)]
        for taker in takers:
            taker.start()
        wait_until(lambda: not any(taker.is_alive() for taker in takers), "the end of the loop in all threads")
        return sorted(taken), time.process_time() - began

    alone, seconds = taken_by(1)
    together, cpu_seconds = taken_by(8)
    assert together == alone and len(alone) > 500
    # It was some hundred times as much. Seconds of a core do not depend on what else runs.
    assert cpu_seconds < 5 * seconds + 1


def test_closing_while_several_threads_take_batches_loses_none(config: dict[str, Any]) -> None:
    config["pipeline"]["seq_len"] = 16
    count = len(list(millstream.Loader(config)))
    for _ in range(40):
        loader = millstream.Loader(config)
        batches, are_taken = iter(loader), threading.Event()
        taken: list[int] = []

        def take() -> None:
            for batch in batches:
                taken.append(batch.number)
                if len(taken) > 20:
                    are_taken.set()

        takers = [threading.Thread(target=take) for _ in range(4)]
        for taker in takers:
            taker.start()
        are_taken.wait(60)
        loader.close()
        for taker in takers:
            taker.join()
        taken.extend(batch.number for batch in loader)
        assert sorted(taken) == list(range(count))


def test_opening_goes_on_while_waits_are_given_up(config: dict[str, Any]) -> None:
    waits = 0

    class Slow:
        vocab_size = 300

        def __call__(self, text: str) -> list[int]:
            return list(text.encode())

        def token_to_id(self, token: str) -> int:
            wait_until(lambda: waits > 3, "some waits")
            return 256

    async def first() -> millstream.Batch:
        nonlocal waits
        batches = aiter(millstream.Loader(config, tokenizer=Slow()))
        while True:
            try:
                return await asyncio.wait_for(anext(batches), 0.02)
            except TimeoutError:
                waits += 1

    with pytest.warns(RuntimeWarning, match="is a Python function"):
        assert asyncio.run(first()).number == 0


def test_what_is_held_out_has_to_be_set_aside(config: dict[str, Any]) -> None:
    with pytest.raises(millstream.ConfigError, match="pipeline.holdout: held_out=True") as e:
        millstream.Loader(config, held_out=True)
    assert e.value.key == "pipeline.holdout"


def test_what_has_come_does_not_wait_for_what_has_not(config: dict[str, Any]) -> None:
    is_wanted = threading.Event()

    def documents(lane: int, start: int) -> Any:
        yield "a" * 10000
        assert is_wanted.wait(60), "the batch waits for the next document"
        yield "later"

    given = {"tokenizer": config["tokenizer"], "pipeline": {**config["pipeline"], "window": 1}}
    batches = iter(millstream.Loader.from_documents(documents, config=given))
    next(batches)
    is_wanted.set()
    assert sum(1 for _ in batches) > 10


def test_several_tasks_share_the_batches(config: dict[str, Any]) -> None:
    async def read() -> list[str]:
        batches = aiter(millstream.Loader(config))

        async def task() -> list[str]:
            return [batch.digest async for batch in batches]

        parts = await asyncio.gather(*(task() for _ in range(4)))
        return [digest for part in parts for digest in part]

    assert sorted(asyncio.run(read())) == sorted(digests(millstream.Loader(config)))


def test_pickling_keeps_config_place_and_stages(config: dict[str, Any]) -> None:
    loader = millstream.Loader(config).map(str.upper)
    first = digests(loader, 3)
    assert len(first) == 3
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.cursor == loader.cursor and digests(copy) == digests(loader)


def test_keys_are_merged_and_errors_name_them(config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    from_file = millstream.Loader(file, pipeline={"batch_size": 4}, settings=["pipeline.seq_len=32"])
    assert next(iter(from_file)).shape == (4, 33)
    assert from_file.config["pipeline"]["lanes"] == 4
    assert digests(millstream.Loader(file)) == digests(millstream.Loader(**config))
    with pytest.raises(millstream.ConfigError, match=r"^pipeline.seq_lenn: unknown key .* did you mean `seq_len`") as e:
        millstream.Loader(config, pipeline={"seq_lenn": 8})
    assert e.value.key == "pipeline.seq_lenn" and e.value.kind == "config" and isinstance(e.value, ValueError)
    file = tmp_path / "config.toml"
    file.write_text("[pipeline]\nseq_len = 0\n")
    with pytest.raises(millstream.ConfigError, match="config.toml:2:1: `pipeline.seq_len` must be .* not 0") as e:
        millstream.Loader(file)
    assert (e.value.path, e.value.line) == (str(file), 2)
    for wrong in (7, ["a"]):
        with pytest.raises(TypeError, match="a config is a path or a dict"):
            millstream.Loader(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be"):
        millstream.Loader(config, dtype="float32")


def test_bad_documents_are_named(config: dict[str, Any], corpus: Path) -> None:
    with (corpus / "0.jsonl").open("a") as file:
        file.write('{"text": 3}\n')
    with pytest.raises(millstream.DocumentError) as e:
        digests(millstream.Loader(config))
    assert (e.value.path, e.value.line) == (str(corpus / "0.jsonl"), 401) and e.value.byte
    assert isinstance(pickle.loads(pickle.dumps(e.value)), millstream.DocumentError)
    config["source"][0]["on_error"] = {"skip": 10}
    assert digests(millstream.Loader(config))


def test_other_cursors_are_refused(config: dict[str, Any]) -> None:
    loader = millstream.Loader(config)
    next(iter(loader))
    other = millstream.Loader(config, cursor=loader.cursor, seed=7)
    with pytest.raises(millstream.FingerprintError) as e:
        iter(other)
    assert e.value.fields["field"] == "seed"
    assert loader.cursor is not None
    with pytest.raises(millstream.CursorError, match="^this is not a cursor: its checksum is wrong: [^;]*; [^;]*$"):
        millstream.Cursor.from_json(loader.cursor.to_json().replace('"batch":1', '"batch":2'))


def test_functions_over_documents(config: dict[str, Any]) -> None:
    upper = "".join(_texts(millstream.Loader(config).map(str.upper)))
    assert "DOCUMENT 7:" in upper and "document" not in upper
    kept = _texts(millstream.Loader(config).filter(lambda text: "file 0" in text, name="of file 0"))
    assert len(kept) == 400
    both = _texts(millstream.Loader(config).filter(lambda text: "file 0" in text, name="of file 0").map(str.upper))
    assert sorted(both) == sorted(text.upper() for text in kept)

    def fails(text: str) -> str:
        if "document 333" in text:
            raise LookupError("not this one")
        return text

    with pytest.raises(millstream.DocumentError, match="fails raised LookupError: not this one") as e:
        digests(millstream.Loader(config).map(fails))
    assert isinstance(e.value.__cause__, LookupError) and e.value.__cause__.__traceback__ is not None
    assert e.value.line == 334 and str(e.value.path).endswith(".jsonl")
    # A function that lacks its `return`.
    with pytest.raises(millstream.DocumentError, match="returned a wrong value: .* not NoneType") as e:
        digests(millstream.Loader(config).map(lambda text: None, name="none"))  # type: ignore[arg-type, return-value]
    assert isinstance(e.value.__cause__, TypeError)


def _texts(loader: millstream.Loader) -> list[str]:
    """Each document's text."""
    runs: dict[tuple[str | None, int], dict[int, int]] = {}
    for batch in loader:
        ids = batch.ids.tolist()
        for piece in batch.pieces:
            run = ids[piece.row][piece.start : piece.stop]
            runs.setdefault((piece.path, piece.byte), {}).update(enumerate(run, piece.offset))
    return [bytes(run[at] for at in range(len(run) - 1)).decode() for run in runs.values()]


def test_the_cause_is_that_of_the_document_which_the_error_names(config: dict[str, Any], corpus: Path) -> None:
    # Others say the same.
    lines = [json.loads(line)["text"] for line in (corpus / "0.jsonl").read_text().splitlines()]

    class OfText(ValueError):
        def __init__(self, text: str) -> None:
            super().__init__("no good")
            self.text = text

    def refuses(text: str) -> str:
        raise OfText(text)

    config["source"][0]["paths"] = [str(corpus / "0.jsonl")]
    for seed in range(20):
        with pytest.raises(millstream.DocumentError, match="no good") as e:
            digests(millstream.Loader(config, seed=seed).map(refuses))
        assert isinstance(e.value.__cause__, OfText) and e.value.line
        assert e.value.__cause__.text == lines[e.value.line - 1]


class Suffix:
    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def __call__(self, text: str) -> str:
        return text + self.suffix

    def add(self, text: str) -> str:
        return text + self.suffix


def test_what_has_no_name_of_its_own_wants_one(config: dict[str, Any]) -> None:
    loader = millstream.Loader(config)
    unnamed: list[Any] = [lambda text: text, functools.partial(str.replace, "a"), Suffix("!"), Suffix("!").add, "a".join]
    for function in unnamed:
        with pytest.raises(ValueError, match="needs a name"):
            loader.map(function)
        loader.map(function, name="told")
    named: list[Any] = [str.lower, textwrap.dedent, Suffix]
    for function in named:
        loader.map(function)


def test_what_is_no_function_is_refused_at_once(config: dict[str, Any]) -> None:
    loader = millstream.Loader(config)
    wrong: list[Any] = [3, None, "str.lower"]
    for function in wrong:
        with pytest.raises(TypeError, match="expected a function"):
            loader.map(function)
        with pytest.raises(TypeError, match="expected a function"):
            millstream.Loader.from_documents(function, name="wrong")
    with pytest.raises(TypeError, match="name is a str"):
        loader.filter(str.isascii, name=3)  # type: ignore[arg-type]
    no_texts: list[Any] = ["one text", {"messages": []}, [1, 2], [b"one"]]
    for texts in no_texts:
        with pytest.raises(TypeError, match="text"):
            millstream.Loader.from_texts(texts)


def test_texts_stand_in_place_of_a_source(config: dict[str, Any]) -> None:
    with pytest.raises(millstream.ConfigError, match="leave .*source.* out") as error:
        next(iter(millstream.Loader.from_texts(["a text"], config=config)))
    assert error.value.key == "source"


def test_a_cursor_is_no_text(config: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Cursor.from_json"):
        millstream.Loader(config, cursor="{}")  # type: ignore[arg-type]


def test_none_unsets_a_key(config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**config, "pipeline": {**config["pipeline"], "epochs": 3}}))
    assert millstream.Loader(file).config["pipeline"]["epochs"] == 3
    assert "epochs" not in millstream.Loader(file, pipeline={"epochs": None}).config["pipeline"]


def test_a_cursor_of_the_other_side_is_named(config: dict[str, Any]) -> None:
    held_out = millstream.Loader(config, pipeline={"holdout": 0.3}, held_out=True)
    next(iter(held_out))
    with pytest.raises(millstream.FingerprintError, match="`held_out` was true and is now false"):
        next(iter(millstream.Loader(config, pipeline={"holdout": 0.3}, cursor=held_out.cursor)))


def test_a_tokenizer_that_gives_no_ids_ends_an_endless_stream(config: dict[str, Any]) -> None:
    config["source"][0]["paths"] = config["source"][0]["paths"][0].replace("*", "0")
    config["pipeline"].pop("epochs")
    with pytest.raises(millstream.DocumentError, match="1024 epochs of its lane have no ids"):
        next(iter(millstream.Loader({**config, "tokenizer": {}}, tokenizer=lambda text: [])))


def test_documents_that_python_makes(config: dict[str, Any]) -> None:
    asked: list[tuple[int, int]] = []

    def documents(lane: int, start: int) -> Any:
        asked.append((lane, start))
        return (f"lane {lane}, document {n}" * 3 for n in range(start, 200))

    del config["source"]
    whole = list(millstream.Loader.from_documents(documents, config=config))
    assert sorted(asked) == [(lane, 0) for lane in range(4)]
    at = len(whole) // 2
    resumed = millstream.Loader.from_documents(documents, config=config, cursor=whole[at].cursor)
    assert digests(resumed) == [batch.digest for batch in whole[at + 1 :]]
    assert max(start for _, start in asked) > 0

    def fails(lane: int, start: int) -> Any:
        yield from ["one", "two"]
        raise OSError("the line is cut")

    with pytest.raises(millstream.StageError, match=r"document 2 of lane \d: it raised OSError: the line is cut") as e:
        digests(millstream.Loader.from_documents(fails, config=config))
    assert isinstance(e.value.__cause__, OSError)
    with pytest.raises(millstream.ConfigError, match="pipeline.holdout: custom documents have no hold-out"):
        digests(millstream.Loader.from_documents(documents, config=config, pipeline={"holdout": 0.1}, held_out=True))
    texts = [f"text {n}" for n in range(300)]
    assert len(digests(millstream.Loader.from_texts(texts, config=config))) > 1


def test_what_a_loader_says_of_itself(config: dict[str, Any]) -> None:
    loader = millstream.Loader(config)
    assert "not opened yet" in repr(loader) and loader.meters == {} and loader.tokenizer is None
    for _ in loader:
        pass
    assert loader.meters["batches"] == loader.cursor.batch  # type: ignore[union-attr]
    assert "tokenize" in loader.table() and loader.verdict
    page = loader._repr_html_()
    assert page.startswith("<pre>") and loader.verdict.split()[0] in page
    tokenizer = loader.tokenizer
    assert tokenizer is not None and tokenizer.decode(tokenizer.encode("mill")) == "mill"
    assert tokenizer.vocab_size == 257 and tokenizer.id("<|endoftext|>") == 256


def run(code: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(program, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_a_function_that_raises_is_the_cause_whatever_its_exception_does(config: dict[str, Any]) -> None:
    # In a process of its own: it could wait forever.
    code = """
        import itertools, json, sys, threading, time, warnings, millstream
        warnings.simplefilter("ignore")
        calls, later = itertools.count(), threading.Event()
        class Changing(Exception):
            texts = itertools.count()
            def __str__(self):
                later.set()
                time.sleep(0.2)
                return f"text {next(self.texts)}"
        def fails(text):
            if next(calls) == 0:
                raise Changing
            later.wait()
            raise ValueError("another lane")
        config = json.loads(sys.argv[1])
        try:
            list(millstream.Loader(config).map(fails))
        except millstream.DocumentError as e:
            print(type(e.__cause__).__name__, flush=True)
        # Many are skipped in each split before one is too many.
        config["source"][0].update(on_error={"skip": 40}, split="8KiB")
        config["tokenizer"] = {}
        def encode(text):
            raise ValueError(f"bad {next(calls)}")
        try:
            list(millstream.Loader(config, tokenizer=encode))
        except millstream.Error as e:
            print(type(e.__cause__).__name__, flush=True)
    """
    out, err = run(code, json.dumps(config)).communicate(timeout=120)
    assert out.split() in (["Changing", "ValueError"], ["ValueError", "ValueError"]), out + err


def test_functions_may_use_the_loaders_tokenizer(config: dict[str, Any]) -> None:
    class Bytes:
        vocab_size = 257

        def __call__(self, text: str) -> list[int]:
            return list(text.encode())

    config["tokenizer"] = {}
    with pytest.warns(RuntimeWarning, match="is a Python function"):
        loader = millstream.Loader(config, tokenizer=Bytes())
    alone = digests(loader)

    def counted(text: str) -> str:
        tokenizer = mapped.tokenizer
        assert tokenizer is None or tokenizer.encode("abc") == [97, 98, 99]
        return text

    mapped = loader._resumed(None).map(counted)
    assert digests(mapped) == alone
    # After the loop too.
    assert mapped.tokenizer and mapped.tokenizer.encode("abc") == [97, 98, 99]


def test_pieces_name_urls_as_they_are(config: dict[str, Any], corpus: Path) -> None:
    class Files(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            data = (corpus / self.path.strip("/")).read_bytes()
            first, last = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()  # type: ignore[union-attr]
            first, last = int(first), min(int(last or len(data)), len(data) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.send_header("Content-Length", str(last + 1 - first))
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(data[first : last + 1])

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str((corpus / self.path.strip("/")).stat().st_size))
            self.send_header("ETag", '"1"')
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/0.jsonl"
    config["source"][0]["paths"] = [url]
    paths = {piece.path for batch in millstream.Loader(config) for piece in batch.pieces}
    server.shutdown()
    assert paths == {url}


def test_a_forked_process_is_told(config: dict[str, Any]) -> None:
    code = """
        import json, os, sys, millstream
        loader = millstream.Loader(json.loads(sys.argv[1]))
        batches = iter(loader)
        next(batches)
        if os.fork() == 0:
            try:
                next(batches)
            except millstream.ForkError as e:
                print(e, flush=True)
            del batches
            # The same loader can be opened anew here.
            print(next(iter(millstream.Loader(json.loads(sys.argv[1])))).number, flush=True)
            os._exit(0)
        os.wait()
        print(next(batches).number)
    """
    process = run(code, json.dumps(config))
    out, err = process.communicate(timeout=120)
    assert "opened before fork()" in out and out.split()[-2:] == ["0", "1"], err
    assert process.returncode == 0


def answers_at_once(code: str, *arguments: str) -> None:
    """Runs a program that prints how many seconds it took to answer Ctrl-C: some are slow because the machine is busy."""
    best = 1e9
    for _ in range(20):
        out, err = run(code, *arguments).communicate(timeout=120)
        best = min(best, float(out or f"nan {err}"))
        if best < 0.1:
            return
    raise AssertionError(f"it took {best} s")


def test_ctrl_c_is_answered_at_once(config: dict[str, Any]) -> None:
    # What it waits for comes never. The time is taken in the process itself, from the signal to the exception.
    code = """
        import json, os, signal, sys, threading, time, millstream
        # Whoever started the tests in the background has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def documents(lane, start):
            threading.Event().wait()
            yield ""
        config = json.loads(sys.argv[1])
        del config["source"]
        loader = millstream.Loader.from_documents(documents, config=config)
        sent = []
        def press():
            time.sleep(0.5)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            next(iter(loader))
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0], flush=True)
        os._exit(0)
    """
    answers_at_once(code, json.dumps(config))


def test_ctrl_c_ends_an_opening_that_async_for_waits_for(config: dict[str, Any]) -> None:
    code = """
        import asyncio, json, os, signal, sys, threading, time, warnings, millstream
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        is_opening, sent = threading.Event(), []
        class Slow:
            vocab_size = 300
            def __call__(self, text):
                return list(text.encode())
            def token_to_id(self, token):
                is_opening.set()
                threading.Event().wait()
        config = json.loads(sys.argv[1])
        config["tokenizer"] = {"eos": "<|endoftext|>"}
        async def read():
            async for batch in millstream.Loader(config, tokenizer=Slow()):
                pass
        def press():
            is_opening.wait()
            time.sleep(0.2)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            asyncio.run(read())
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0], flush=True)
        os._exit(0)
    """
    answers_at_once(code, json.dumps(config))


def test_a_stream_may_be_collected_on_any_thread(config: dict[str, Any]) -> None:
    code = """
        import gc, json, sys, warnings, millstream
        warnings.simplefilter("ignore")
        gc.disable()
        class Holder:
            pass
        class Collecting:
            vocab_size = 300
            def __call__(self, text):
                return list(text.encode())
            def token_to_id(self, token):
                gc.collect()
                return 256
        config = json.loads(sys.argv[1])
        holder = Holder()
        holder.itself, holder.batches = holder, iter(millstream.Loader(config))
        next(holder.batches)
        del holder
        config["tokenizer"] = {"eos": "<|endoftext|>"}
        print(sum(1 for _ in millstream.Loader(config, tokenizer=Collecting())) > 10)
    """
    out, err = run(code, json.dumps(config)).communicate(timeout=120)
    assert (out, err) == ("True\n", "")


def test_what_a_signal_raises_loses_no_batch(config: dict[str, Any]) -> None:
    code = """
        import json, random, signal, sys, time, millstream
        class Alarm(Exception):
            pass
        def ring(*_):
            raise Alarm
        signal.signal(signal.SIGALRM, ring)
        def documents(lane, start):
            while True:
                time.sleep(0.008)
                yield f"document number {start} " * 4
                start += 1
        config = json.loads(sys.argv[1])
        config["pipeline"] = {"seq_len": 64, "batch_size": 1, "lanes": 1, "window": 1, "depth": 1}
        loader = millstream.Loader.from_documents(documents, config={**config, "source": []})
        batches, lost = iter(loader), 0
        next(batches)
        for _ in range(40):
            seen = loader.cursor.batch
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02 + random.random() / 20)
                while True:
                    next(batches)
                    seen += 1
            except Alarm:
                lost += loader.cursor.batch - seen
        print(lost)
    """
    out, err = run(code, json.dumps(config)).communicate(timeout=120)
    # One that comes within the few instructions between taking a batch and keeping it, nobody can help.
    assert out and int(out) < 10, out + err


def test_exit_ends_what_is_open(config: dict[str, Any]) -> None:
    code = """
        import json, sys, millstream
        batches = iter(millstream.Loader(json.loads(sys.argv[1])).map(str.upper))
        next(batches)
        print("done")
    """
    process = run(code, json.dumps(config))
    out, err = process.communicate(timeout=120)
    assert (out, err, process.returncode) == ("done\n", "", 0)


def test_spawned_processes_read_their_rank(config: dict[str, Any]) -> None:
    import multiprocessing

    whole = [batch.ids.tolist() for batch in millstream.Loader(config)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        halves = pool.starmap(_rows_of_rank, [(config, rank) for rank in range(2)])
    together = [[*first, *second] for first, second in zip(*halves, strict=True)]
    assert [sorted(batch) for batch in together] == [sorted(batch) for batch in whole]


def _rows_of_rank(config: dict[str, Any], rank: int) -> list[list[list[int]]]:
    return [batch.ids.tolist() for batch in millstream.Loader(config, pipeline={"rank": rank, "world": 2})]


def test_memory_stays_flat(config: dict[str, Any]) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    config["pipeline"].pop("epochs")
    loader, early = millstream.Loader(config), 0
    for n, batch in zip(range(10_000), loader):
        memoryview(batch.inputs)
        batch.inputs.__dlpack__()
        if n == 2_000:
            early = resident()
    assert resident() - early < 8 << 20


def test_skipped_documents_are_in_pythons_log(config: dict[str, Any], corpus: Path, caplog: Any) -> None:
    with (corpus / "1.jsonl").open("a") as file:
        file.write('{"text": 3}\n')
    config["source"][0]["on_error"] = {"skip": 10}
    with caplog.at_level("INFO", logger="millstream"):
        digests(millstream.Loader(config))
    assert any("1.jsonl" in record.getMessage() for record in caplog.records if record.levelname == "WARNING")


def test_ranks_of_jax_share_the_rows(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("jax")
    program = textwrap.dedent("""
        import json, sys, jax, millstream
        config, rank, address = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        jax.distributed.initialize(address, num_processes=2, process_id=rank)
        batch = next(iter(millstream.Loader(config, arrays="jax")))
        print(json.dumps([jax.process_index(), batch.inputs.tolist()]))
    """)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-c", program, json.dumps(config)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    both = [
        subprocess.Popen([*command, str(rank), address], stdout=subprocess.PIPE, text=True, env=environment)
        for rank in range(2)
    ]
    said = [json.loads(process.communicate(timeout=600)[0]) for process in both]
    assert [rank for rank, _ in said] == [0, 1]
    rows = [rows for _, rows in said]
    whole = next(iter(millstream.Loader(config))).inputs.tolist()
    assert all(len(half) == 4 for half in rows) and sorted(rows[0] + rows[1]) == sorted(whole)
