"""Says what transformers makes of conversations with TRL's templates for training: ids, and which the assistant wrote.

`labels_peer.py CHATS DIRECTORY` learns a tokenizer, writes it and the templates to the directory, and prints a line of
JSON for each template: its name, and for each line of CHATS the ids and the mask, or null if the template refuses it.
"""

import datetime
import importlib.util
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

END = "<|im_end|>"
SPECIAL = ["<|endoftext|>", "<|im_start|>", END]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 28)


def learn(texts, path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [AddedToken(token, special=True) for token in SPECIAL]
    tokens += [AddedToken(token, special=False) for token in ADDED]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=tokens, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))


def main():
    chats, directory = Path(sys.argv[1]), Path(sys.argv[2])
    lines = chats.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    learn(lines, directory / "tokenizer.json")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(directory / "tokenizer.json"), eos_token=END, bos_token=SPECIAL[0]
    )
    chat_template_utils.datetime = Today
    # TRL is not imported: it would import PyTorch.
    (trl,) = importlib.util.find_spec("trl").submodule_search_locations
    for template in sorted(Path(trl, "chat_templates").glob("*_training.jinja")):
        tokenizer.chat_template = template.read_text()
        (directory / template.name).write_text(tokenizer.chat_template)
        found = []
        for line in lines:
            record = json.loads(line)
            try:
                encoded = tokenizer.apply_chat_template(
                    record["messages"],
                    tools=record.get("tools"),
                    tokenize=True,
                    return_dict=True,
                    return_assistant_tokens_mask=True,
                )
                found.append([encoded["input_ids"], encoded["assistant_masks"]])
            except Exception:
                found.append(None)
        print(json.dumps({"template": template.name, "chats": found}))


main()
