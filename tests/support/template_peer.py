"""Says what transformers renders: one line of JSON for each template, and after it one for each of its renderings.

    python3 template_peer.py CHATS SNIPPETS [FOLDER]

Each line of CHATS is a conversation, each line of SNIPPETS a template, both in JSON. A template's line has its `template` (a
name), its `source` and the number of its `chats`; the lines after it have `text` and `generated` (the ranges of generation
blocks, in bytes), or `refused`: for each chat without the prompt of an answer, and with it. The templates are those of the
snippets, rendered for the first conversations only, all that TRL has, and all in FOLDER and the folders in it.

It needs transformers, jinja2 and trl, which is not imported.
"""

import datetime
import importlib.util
import json
import re
import sys
from pathlib import Path

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
# How many conversations each snippet is rendered for.
FEW = 3


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 28)


def render(source, chat, prompt):
    has_blocks = re.search(r"\{%[-+]?\s*generation", source) is not None
    try:
        # `apply_chat_template` refuses it before it renders.
        if not chat["messages"]:
            raise ValueError("an empty conversation")
        messages = _normalize_chat_messages(chat["messages"])
        (text,), ranges = render_jinja_template(
            conversations=[messages],
            tools=chat.get("tools"),
            documents=chat.get("documents"),
            chat_template=source,
            return_assistant_tokens_mask=has_blocks,
            add_generation_prompt=prompt,
            **TOKENS,
            **chat.get("kwargs", {}),
        )
    except Exception as error:  # Templates fail with any error of Python.
        return {"refused": f"{type(error).__name__}: {error}"}
    place = lambda at: len(text[:at].encode())
    generated = [[place(start), place(end)] for start, end in (ranges[0] if ranges else []) if start < end]
    return {"text": text, "generated": generated}


def lines(path):
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main(chats, snippets, *folders):
    chat_template_utils.datetime = Today
    chats = [json.loads(line) for line in lines(chats)]
    templates = [(source, source, FEW) for source in map(json.loads, lines(snippets))]
    (trl,) = importlib.util.find_spec("trl").submodule_search_locations
    for folder in (trl, *folders):
        for path in sorted(Path(folder).rglob("*.jinja")):
            templates.append((path.name, path.read_text(encoding="utf-8"), len(chats)))
    for name, source, count in templates:
        print(json.dumps({"template": name, "source": source, "chats": count}))
        for chat in chats[:count]:
            for prompt in (False, True):
                print(json.dumps(render(source, chat, prompt)))


if __name__ == "__main__":
    main(*sys.argv[1:])
