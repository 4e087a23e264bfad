"""Conversations of some 2 KB through a chat template, with Millstream and with `datasets.map` and `apply_chat_template`.

    cargo bench -- chats --template chatml
    cargo build --release --bin millstream
    python3 -m venv target/chats
    target/chats/bin/pip install datasets==5.2.0 transformers==5.24.0 jinja2==3.1.6
    target/chats/bin/python benches/chats.py

The first command makes the conversations, the template and the tokenizer, in target/tmp/chats-64. Both sides make ids of all
conversations, and say which of them the assistant wrote, on as many cores: `map` in one process for each, in batches.
Millstream is the program's whole loader, which shuffles and packs them too. They take turns, and the ratio is that of
the median rates. It fails unless both have as many ids, and as many that are learned from.

| option | what it says | default |
|---|---|---|
| `--bin PATH` | the program | target/release/millstream |
| `--corpus PATH` | what the bench made | target/tmp/chats-64 |
| `--turns N` | how often each side runs | 3 |
"""

import argparse
import glob
import json
import os
import statistics
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import script

EOS = "<|endoftext|>"


def millstream(program, corpus, directory):
    """Runs the program's loader over one epoch."""
    config = os.path.join(directory, "chats.json")
    chat = {"template": os.path.join(corpus, "chatml.jinja")}
    source = {"kind": "jsonl", "paths": [f"{corpus}/chat/*.jsonl"], "task": "chat", "chat": chat}
    tokenizer = {"path": os.path.join(corpus, "tokenizer.json"), "eos": EOS}
    pipeline = {"epochs": 1, "seq_len": 2048, "batch_size": 8, "pack": "best_fit"}
    script.save(config, json.dumps({"source": [source], "tokenizer": tokenizer, "pipeline": pipeline}))

    def run():
        said = json.loads(script.output_of([program, "bench", "loader", config, "--json", "-n", str(1 << 40)]))
        (made,) = (stage for stage in said["meters"]["stages"] if stage["stage"] == "tokenize")
        return said["first_batch_seconds"] + said["seconds"], (made["documents"], made["tokens"], said["tokens"])

    return run


def mapped(corpus, processes):
    """Runs `datasets.map` over all conversations."""
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(corpus, "tokenizer.json"), eos_token=EOS)
    with open(os.path.join(corpus, "chatml.jinja"), encoding="utf-8") as template:
        tokenizer.chat_template = template.read()
    files = sorted(glob.glob(os.path.join(corpus, "chat", "*.jsonl")))
    chats = datasets.load_dataset("json", data_files=files, split="train")

    def encode(batch):
        encoded = tokenizer.apply_chat_template(batch["messages"], return_dict=True, return_assistant_tokens_mask=True)
        return {"input_ids": encoded["input_ids"], "assistant_masks": encoded["assistant_masks"]}

    def run():
        begun = time.perf_counter()
        made = chats.map(encode, batched=True, num_proc=processes, remove_columns=["messages"], load_from_cache_file=False)
        seconds = time.perf_counter() - begun
        ids, masks = (made.data.column(name) for name in ("input_ids", "assistant_masks"))
        tokens = sum(len(chunk.values) for chunk in ids.chunks)
        learned = sum(int(chunk.values.to_numpy().sum()) for chunk in masks.chunks)
        return seconds, (len(made), tokens, learned)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="target/release/millstream")
    parser.add_argument("--corpus", default="target/tmp/chats-64")
    parser.add_argument("--turns", type=script.positive, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        # Before the libraries are imported: what they keep goes with the directory, and each process has one thread.
        os.environ |= {"HF_HOME": directory, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        sides = {
            "Millstream": millstream(options.bin, options.corpus, directory),
            "datasets.map": mapped(options.corpus, cores),
        }
        seconds = {name: [] for name in sides}
        for turn in range(options.turns):
            made = {}
            for name, run in sides.items():
                took, made[name] = run()
                seconds[name].append(took)
                script.say(f"turn {turn + 1}: {name} {took:.2f} s, {made[name]}")
            if len(set(made.values())) > 1:
                sys.exit(f"the sides differ in documents, ids, and ids that are learned from: {made}")
    documents, tokens, learned = made["Millstream"]
    print(f"{documents} conversations, {tokens} ids, {learned} of them learned from; {cores} cores")
    rates = {name: documents / statistics.median(took) for name, took in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:<14}{rate:>10.0f} conversations/s{tokens / documents * rate / 1e6:>10.2f} M ids/s")
    print(f"ratio {rates['Millstream'] / rates['datasets.map']:.0f}")


if __name__ == "__main__":
    main()
