"""Makes the tokenizers of `tests/tokenizer/gate.rs`: one vocabulary, and all that a file may say around it.

    millstream tokenizer train configs/tiny.toml --set tokenizer.train.vocab_size=400 -o learned.json
    python make_gate.py learned.json

The fast engine reads some of them wrongly without a word, fails on some at each text, and refuses some.
"""

import copy
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent / "tokenizers" / "gate"
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORD = r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = f"{WORD}{UPPER}*{LOWER}+{SUFFIX}|{WORD}{UPPER}+{LOWER}*{SUFFIX}|\\p{{N}}{{1,3}}{ENDS}"
TEKKEN = f"{WORD}{UPPER}*{LOWER}+|{WORD}{UPPER}+{LOWER}*|\\p{{N}}{ENDS}"


def digits(rule):
    return CL100K.replace(r"\p{N}{1,3}", rule)


def cut(pattern, behavior="Isolated", invert=False):
    """The pre-tokenizer that cuts by a pattern and then maps bytes."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [split, bytes_]}


def byte_level(prefix):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}


def added(file, **flags):
    """The file with a token that is no special one."""
    token = {"id": 400, "content": "<mill>", "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False, **flags}
    file["added_tokens"].append(token)


PATTERNS = {
    "cl100k": CL100K,
    "o200k": O200K,
    "tekken": TEKKEN,
    "qwen": digits(r"\p{N}"),
    "digits-2": digits(r"\p{N}{1,2}"),
    "digits-any": digits(r"\p{N}+"),
    "digits-4": digits(r"\p{N}{1,4}"),
    "unknown": r"\p{L}+|\p{N}{2,4}|[^\p{L}\p{N}]",
    "words": r"[^ ]+| +",
}
OTHERS = {
    "gpt2": {"pre_tokenizer": byte_level(False)},
    "prefix-space": {"pre_tokenizer": byte_level(True)},
    "inverted": {"pre_tokenizer": cut(CL100K, "Removed", True)},
    "removed": {"pre_tokenizer": cut(r"\s+", "Removed")},
    "nfc": {"normalizer": {"type": "NFC"}},
    "nfkc": {"normalizer": {"type": "NFKC"}},
    "lowercase": {"normalizer": {"type": "Lowercase"}},
}


def main():
    HERE.mkdir(exist_ok=True)
    learned = json.loads(pathlib.Path(sys.argv[1]).read_text())
    files = {name: {"pre_tokenizer": cut(pattern)} for name, pattern in PATTERNS.items()} | OTHERS
    for name, change in files.items():
        write(name, copy.deepcopy(learned) | change)
    for name, change in {"dropout": {"dropout": 0.1}, "dropout-0": {"dropout": 0.0}, "whole-words": {"ignore_merges": True}}.items():
        file = copy.deepcopy(learned)
        file["model"] |= change
        write(name, file)
    for name, flags in {"added": {}, "stripping": {"lstrip": True, "rstrip": True}, "single-word": {"single_word": True}}.items():
        file = copy.deepcopy(learned)
        added(file, **flags)
        write(name, file)


def write(name, file):
    (HERE / f"{name}.json").write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
