"""Makes the tokenizers of `tests/tokenizer/files.rs` and the ids that other people's libraries give with them.

    pip install tiktoken==0.14.0 tokenizers==0.23.3
    millstream tokenizer train CONFIG -o learned.json     # byte-level BPE; its tokens become the ranks
    python make_tokenizers.py learned.json

tiktoken needs no network for an encoding whose ranks are at hand. The trainers of `tokenizers` give another vocabulary
each time; so a tokenizer.json that is there is kept, and only its ids are made anew.
"""

import base64
import json
import pathlib
import sys

import tiktoken
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent / "tokenizers"
LICENCE = (HERE.parent.parent.parent / "LICENSE-APACHE").read_text()
CORPUS = [
    *LICENCE.split("\n"),
    "It's the miller's mill, and it'll mill what we've brought; DON'T stop it.",
    "Мельница мелет муку. Мельница мелет. 風車は粉をひく。風車は回る。",
    "père, mère, frère: naïve cafés 😀😀 12 123 1234 2024 2025",
]

TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\t\t", " \n ", "a  b", "  a", "x\n\n  y", "end  \n", "tabs\t\tand\r\n\r\nlines\r",
    "the", " the", "License", "the licensor's License; DON'T, we'll, I'VE", "'s 't ''ll 'Re", "camelCaseHTTPServer2go",
    "1", "12", "123", "1234567", "3.14159 1,000,000 ٣٤٥ ½²³ Ⅻ", "père naïve cafés e\u0301\u0302 ǅ ß İ",
    "Мельница мелет", "風車は粉をひく。", "한국어 हिन्दी שָׁלוֹם مرحبا", "😀😀 👩‍👩‍👧‍👦 👍🏽 🇩🇪🇫🇷", "\u0000\u0001\u007f\u00ad\u200d\ufeff",
    "\u00a0\u2003\u3000 \u2028", "<|endoftext|>", "a<|endoftext|>b <|endofprompt|>", "[UNK] [CLS] ##ing <unk> ▁▁ <s>",
    "/* {}[]() */ // --- === ...!?", "a" * 40, "ab" * 20, " " * 20 + "x", "\n" * 9, "-" * 33, "\U0010ffff\ue000",
    "aaab baaab aabaab", "wholeword the wholeword", "don'tdon't", "https://example.org/a_b?c=d&e=f#g",
]


def letters():
    """The bytes in the order in which published ranks have them: the printable ones first."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in printable]


def spelled():
    """What each character of a byte-level vocabulary stands for."""
    extra = iter(range(256, 512))
    printable = set(letters()[:188])
    return {chr(byte if byte in printable else next(extra)): byte for byte in range(256)}


def ranks(learned):
    """The learned tokens, between bytes in another order, with what merging never makes, and a hole."""
    file = json.loads(pathlib.Path(learned).read_text())
    special = {token["content"] for token in file["added_tokens"]}
    bytes_of = spelled()
    tokens = [bytes([byte]) for byte in letters()]
    for token in sorted(file["model"]["vocab"], key=file["model"]["vocab"].get):
        if token not in special:
            token = bytes(bytes_of[letter] for letter in token)
            if len(token) > 1:
                tokens.append(token)
    tokens += [b"aa", b"aaa", b"baaab", b" wholeword", b"\xf0\x9f", "٣٤٥".encode(), b"ababab"]
    result = {}
    for token in dict.fromkeys(tokens):
        result[token] = len(result) + (3 if len(result) >= 400 else 0)
    return result


def train(name, tokenizer, trainer):
    path = HERE / f"{name}.json"
    if not path.exists():
        tokenizer.train_from_iterator(CORPUS, trainer)
        path.write_text(tokenizer.to_str(pretty=False) + "\n")
    return Tokenizer.from_file(str(path))


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace("  ", " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return train("unigram", tokenizer, trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return train("wordpiece", tokenizer, trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))


def main():
    HERE.mkdir(exist_ok=True)
    golden = {"texts": TEXTS}
    for name, tokenizer in {"unigram": unigram(), "wordpiece": wordpiece()}.items():
        tokenizer.encode_special_tokens = True
        golden[name] = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]

    by_token = ranks(sys.argv[1])
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in by_token.items())
    (HERE / "ranks.tiktoken").write_text("".join(lines))
    from tiktoken_ext import openai_public

    cl100k = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    o200k = "|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
    ])
    now = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    patterns = {"gpt2": openai_public.r50k_pat_str, "cl100k_base": cl100k, "o200k_base": o200k, "regex": now}
    golden["regex_pattern"] = now
    special = {"<|endoftext|>": 50256, "<|endofprompt|>": 50300}
    golden["special"] = special
    for name, pattern in patterns.items():
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=by_token, special_tokens=special)
        golden[name] = [encoding.encode_ordinary(text) for text in TEXTS]
        golden[f"{name}_parse"] = [encoding.encode(text, allowed_special="all") for text in TEXTS]
        if golden[f"{name}_parse"] == golden[name]:
            raise SystemExit("special tokens are not seen")
    (HERE / "golden.json").write_text(
        "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in golden.items())
        + "\n}\n")


main()
