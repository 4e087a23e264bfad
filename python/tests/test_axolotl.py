"""Labels are those of axolotl, for the examples of its documentation of conversations. Where they are not, the example says
what differs."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from peers import END, START, Record, config, read, rows, runs, train_tokenizer, write

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
axolotl = pytest.importorskip("axolotl")

from axolotl.prompt_strategies.chat_template import load  # noqa: E402
from axolotl.utils.dict import DictDefault  # noqa: E402

import millstream  # noqa: E402

TEMPLATES = Path(axolotl.__path__[0]) / "utils" / "chat_templates" / "templates"
# A user's turn has the header of the assistant's.
OWN = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'assistant' %}{{ message.content ~ '<|end|>\n' }}"
    "{% else %}{{ '<|' ~ message.role ~ '|>\n' ~ message.content ~ '<|end|>\n' }}"
    "{% if message.role == 'user' %}{{ '<|assistant|>\n' }}{% endif %}{% endif %}{% endfor %}"
)
# What the templates write to end a turn.
ENDS = {"llama3": "<|eot_id|>", "llama4": "<|eot|>", "gemma": "<end_of_turn>", "mistral_v7_tekken": "</s>", "own": "<|end|>"}
MISTRAL = ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]


def said(role: str, content: Any, **more: Any) -> Record:
    return {"role": role, "content": content, **more}


def chat(*messages: Record, **more: Any) -> Record:
    return {"messages": list(messages), **more}


def part(text: str, train: bool | None = None, **more: Any) -> Record:
    return {"type": "text", "text": text, **({} if train is None else {"train": train}), **more}


def shared(*messages: tuple[str, str, Any]) -> Record:
    """ShareGPT's form, with what each message says of itself."""
    return {"conversations": [{"from": role, "value": text, **more} for role, text, more in messages]}


SHAREGPT = {"field_messages": "conversations", "message_property_mappings": {"role": "from", "content": "value"}}
TWO = [
    chat(said("user", "2+2?"), said("assistant", "4"), said("user", "And 3+3?"), said("assistant", "It is 6.")),
    *read("configs/chat.jsonl")[::9],
]
WITH_SYSTEM = [chat(said("system", "Be brief."), *record["messages"][-2:]) for record in TWO]
ASKED = said("user", "What is 2+2?")
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
TOOLS = chat(
    said("user", "Weather in Rome?"), {"role": "assistant", "tool_calls": [CALL]},
    said("tool", "21 degrees", name="weather"), said("assistant", "It is warm."),
    tools=[{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": TOOL}}],
)  # fmt: skip
ANSWER = "The mill turns all day, but not on Sundays."
DETAILS = [(0, 7, False), (8, 22, True), (23, 42, False)]
DETAIL = [{"begin_offset": begin, "end_offset": end, "train": train} for begin, end, train in DETAILS]


@dataclass
class Example:
    """What an example sets in axolotl, and in Millstream for the same labels."""

    theirs: dict[str, Any]
    ours: dict[str, Any]
    records: list[Record] = field(default_factory=lambda: TWO)
    template: str = "chatml"
    # What only axolotl learns from, and what only Millstream does.
    more: set[str] = field(default_factory=set)
    fewer: set[str] = field(default_factory=set)
    # The records as Millstream reads them, if it is in another form.
    rewritten: list[Record] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    end: str | None = None
    source: dict[str, Any] = field(default_factory=dict)


LAST = {"roles_to_train": None, "train_on_eos": None}
BOTH = {"roles_to_train": ["assistant", "user"]}
BY_LETTERS = {"message_field_training": "train", "message_field_training_detail": "train_detail"}
INST = {"eot_tokens": ["[/INST]"]}
EXAMPLES = {
    # It also learns from the line's end behind the token that ends the turn, if the template writes one.
    "the last message": Example(LAST, {"learn": "last"}, more={"\n"}),
    "the last message, and no line's end": Example(LAST, {"learn": "last"}, template="llama3"),
    "all of the assistant's": Example({"roles_to_train": ["assistant"]}, {}),
    "a template by name": Example({}, {}, template="gemma", records=[TWO[0]]),
    "a template of one's own": Example({}, {"turn": {"begin": "<|assistant|>\n", "end": "<|end|>"}}, WITH_SYSTEM, "own"),
    "other roles": Example(BOTH, {"learn": ["assistant", "user"]}, WITH_SYSTEM),
    "ShareGPT": Example(SHAREGPT, {}, [shared(("human", "Hi", {}), ("gpt", "Yes", {}))]),
    "other names": Example(
        {
            "field_messages": "dialogue", "message_property_mappings": {"role": "speaker", "content": "text"},
            "roles": {"assistant": ["bot"], "user": ["customer"]},
        },
        {"fields": {"role": "speaker", "content": "text"}, "roles": {"bot": "assistant", "customer": "user"}},
        [{"dialogue": [{"speaker": "customer", "text": "Hi"}, {"speaker": "bot", "text": "Yes"}]}],
        source={"field": "dialogue"},
    ),
    "variables": Example(
        {}, {"kwargs": {"tools_in_user_message": False}}, [chat(said("system", "Be brief."), **TOOLS)], "llama4",
        settings={"chat_template_kwargs": {"tools_in_user_message": False}},
    ),
    "tools": Example({}, {}, [TOOLS], "llama4"),
    # Millstream has no setting for ends: the one of a turn is learned from with it.
    "all ends": Example({"train_on_eos": "all"}, {}, WITH_SYSTEM, more={END}),
    "the last end": Example({"train_on_eos": "last"}, {}, fewer={END}),
    "no ends": Example({"train_on_eos": "none"}, {}, fewer={END}),
    "the end of a user's turn": Example({"train_on_eot": "turn"}, {}, template="mistral_v7_tekken", settings=INST),
    "two kinds of ends": Example(
        {"train_on_eos": "last", "train_on_eot": "turn"}, {}, template="mistral_v7_tekken", settings=INST, fewer={"</s>"}
    ),
    "messages that say it": Example(
        SHAREGPT | {"roles_to_train": [], "train_on_eos": "turn", "message_field_training": "train"}, {},
        [
            shared(
                ("system", "Be brief.", {"train": False}), ("human", "Hi", {"train": False}),
                ("assistant", "Yes?", {"train": True}), ("human", "Does it turn?", {"train": True}),
                ("assistant", ANSWER, {"train": False}), ("human", ANSWER, {"train": True}),
                ("assistant", "It does.", {"train": True}),
            )
        ],
    ),
    "all of it": Example({}, {"learn": ["system", "user", "assistant"]}, WITH_SYSTEM, settings={"train_on_inputs": True}),
    # Millstream reads parts. A template must take them, as this one does.
    "parts of a message by their letters": Example(
        {**SHAREGPT, **BY_LETTERS, "roles_to_train": []}, {},
        [shared(("human", "Hi", {"train": False}), ("assistant", ANSWER, {"train_detail": DETAIL}))],
        "llama3",
        rewritten=[
            chat(said("user", "Hi"), said("assistant", [part(ANSWER[a : b + 1], train) for a, b, train in DETAILS]))
        ],
    ),
    "parts of a message": Example(
        {}, {},
        [
            chat(said("user", [part("2+2?")]), said("assistant", [part("Two and two...", False), part(answer, True)]))
            for answer in (" That is 4.", "\nThat is 4.")
        ],
        "llama3",
    ),
    "parts with a weight": Example(
        {}, {}, [chat(ASKED, said("assistant", [part("First:\n", weight=0), part("It is 4.", weight=1)]))],
        "llama3",
    ),
    # A token that stands for letters of both parts is learned from. Their documentation says that it is not.
    "parts that share a token": Example(
        {}, {},
        [
            chat(ASKED, said("assistant", [part(one, False), part(other, True)]))
            for one, other in (("This is ", "the lighthouse."), ("This is the light", "house."))
        ],
        "llama3",
    ),
    # Turns that end with a token which is not the tokenizer's: a model does not learn to stop from theirs.
    "an end that is not the tokenizer's": Example({}, {}, template="llama3", end=END, fewer={"<|eot_id|>"}),
    # Their template's prompt begins an empty thought. What stands behind it is what a model writes.
    "no thoughts": Example({}, {}, [chat(ASKED, said("assistant", "It is 4."))], "qwen3", fewer={"</think>\n\n"}),
    "thoughts in the text": Example(
        {"split_thinking": True}, {}, [chat(ASKED, said("assistant", "<think>Some thoughts</think>It is 4."))], "qwen3",
        fewer={"\n"},
    ),
    "thoughts beside it": Example(
        {}, {}, [chat(ASKED, said("assistant", "It is 4.", reasoning_content="Some"))], "qwen3", fewer={"\n"}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    texts = " ".join(template.read_text() for template in TEMPLATES.glob("*.jinja"))
    train_tokenizer(path, [*re.findall(r"<\|\w+\|>|<\w+_of_\w+>", texts), *ENDS.values(), *MISTRAL])
    return path


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, tokenizer: Path, tmp_path: Path, day: str) -> None:
    example = EXAMPLES[name]
    end = example.end or ENDS.get(example.template, END)
    template = TEMPLATES / f"{example.template}.jinja"
    if example.template == "own":
        template = tmp_path / "own.jinja"
        template.write_text(OWN)
    encoder = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer), bos_token=START, eos_token=end)
    encoder.chat_template = template.read_text()
    cfg = {"sequence_len": 4096, "train_on_inputs": False, "chat_template": "tokenizer_default", **example.settings}
    strategy = load(encoder, DictDefault(cfg), DictDefault(example.theirs))
    expected = [strategy.tokenize_prompt(copy.deepcopy(record)) for record in example.records]

    file = write(tmp_path / "chats.jsonl", example.rewritten or example.records)
    settings = config(file, tokenizer, template=str(template), date=day, **example.ours)
    settings["source"][0].update(example.source)
    settings["tokenizer"].update(eos=end, bos=START)
    more: set[str] = set()
    fewer: set[str] = set()
    for ours, row in zip(rows(settings), ((row["input_ids"], row["labels"]) for row in expected), strict=True):
        assert ours[0] == row[0]
        more |= runs(encoder, row, ours)
        fewer |= runs(encoder, ours, row)
    assert (more, fewer) == (example.more, example.fewer)


DETAILED = said("assistant", ANSWER, train_detail=DETAIL)
THOUGHTS = [part("Hmm maybe 5.", False), part(" Wait no, 4.", True)]


@pytest.mark.parametrize(
    ("message", "template", "error"),
    [
        # What stands beside the content cannot say it of its parts.
        (DETAILED, "chatml", "train_detail.*make its content a list of parts"),
        (said("assistant", "It is 4.", reasoning_content=THOUGHTS), "qwen3", "reasoning_content.*make its content a list"),
        # Parts are given to the template as they are, and this one only takes strings.
        (said("assistant", [part("One", False), part(" two.", True)]), "chatml", "the chat template refuses it"),
    ],
)
def test_what_millstream_refuses(message: Record, template: str, error: str, tokenizer: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "chats.jsonl", [chat(ASKED, message)])
    with pytest.raises(millstream.Error, match=f"chats.jsonl:1 .*{error}"):
        rows(config(file, tokenizer, template=str(TEMPLATES / f"{template}.jinja")))
