"""Makes small models with transformers and says what PyTorch computes with them; reads models that were exported.

    python3 transformers_peer.py make DIRECTORY                # a directory for each architecture, with expected.safetensors
    python3 transformers_peer.py read DIRECTORY PROMPT TEXTS   # one line of JSON: logits, greedy text, ids of a JSON list of texts
    python3 transformers_peer.py about DIRECTORY               # one line of JSON: what is said of the model's use
    python3 transformers_peer.py adapter MERGED ADAPTER IDS    # one line of JSON: logits of a model, and of PEFT's with an adapter
    python3 transformers_peer.py rounded F32 OTHER             # fails unless OTHER has the weights of F32, rounded by PyTorch

It needs torch, transformers and safetensors, and for `adapter` peft.
"""

import copy
import json
import sys
import warnings
from pathlib import Path
from unittest import mock

import torch
import torch.optim._muon
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

SMALL = dict(
    vocab_size=300,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

# Each architecture, with how its weights are stored: their type, and the most bytes of one file.
MODELS = {
    "llama2": ("Llama", dict(num_key_value_heads=4), torch.float32, "5GB"),
    "llama3": (
        "Llama",
        dict(
            num_key_value_heads=2,
            rope_parameters=LLAMA3 | {"rope_theta": 500000.0, "original_max_position_embeddings": 16},
        ),
        torch.bfloat16,
        "20KB",
    ),
    "linear": (
        "Llama",
        dict(num_key_value_heads=1, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}),
        torch.float32,
        "5GB",
    ),
    "mistral": ("Mistral", dict(num_key_value_heads=2, head_dim=12, sliding_window=None), torch.float16, "5GB"),
    "smollm": ("Llama", dict(num_key_value_heads=2, tie_word_embeddings=True), torch.float32, "5GB"),
    "qwen2": ("Qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True), torch.float32, "5GB"),
    "qwen3": ("Qwen3", dict(num_key_value_heads=2, head_dim=10), torch.float32, "5GB"),
}

STEPS = 20
OPTIMIZER = dict(lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
DECAY = 0.1
CLIP = 1.0


def make(directory):
    # Threads would wait for each other more than they compute.
    torch.set_num_threads(1)
    for number, (name, (kind, settings, dtype, shard)) in enumerate(MODELS.items()):
        torch.manual_seed(number)
        config = getattr(transformers, f"{kind}Config")(**SMALL, **settings)
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                # Nothing is left at the zeros and ones that models begin with, which would hide mistakes.
                parameter.normal_(1.0 if "norm" in key else 0.0, 0.2)
        path = directory / name
        model.to(dtype).save_pretrained(path, max_shard_size=shard)
        # Read back, for its rotary frequencies were rounded too, which those of a file are not.
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        save_file(expected(model), path / "expected.safetensors")


def forward(model, ids):
    """The logits, and the mean loss."""
    logits = model(ids[:, :-1]).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def expected(model):
    """What PyTorch computes: logits, loss, gradients, and the parameters and the loss after some steps."""
    ids = torch.randint(0, 256, (3, 17))
    logits, value = forward(model, ids)
    value.backward()
    found = {"ids": ids, "logits": logits, "loss": value[None]}
    found |= {f"gradient.{name}": parameter.grad for name, parameter in model.named_parameters()}
    found |= trained("adamw", model, ids, [])
    hidden = [name for name, parameter in model.named_parameters() if ".layers." in name and parameter.dim() == 2]
    found |= trained("muon", model, ids, hidden)
    with mock.patch.object(torch.optim._muon, "_zeropower_via_newtonschulz", newton_schulz):
        found |= trained("muon in f32", model, ids, hidden)
    return {name: tensor.detach().contiguous() for name, tensor in found.items()}


def newton_schulz(matrix, coefficients, steps, epsilon):
    """The iteration of torch.optim.Muon in the type of the matrix, and not in bf16."""
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=epsilon)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def trained(name, model, ids, hidden):
    """The parameters and the loss after some steps: of Muon for those that are named in `hidden`, and of AdamW for the rest."""
    model = copy.deepcopy(model)
    named = dict(model.named_parameters())
    rest = [parameter for key, parameter in named.items() if key not in hidden]
    groups = [
        {"params": [parameter for parameter in rest if parameter.dim() > 1], "weight_decay": DECAY},
        {"params": [parameter for parameter in rest if parameter.dim() == 1], "weight_decay": 0.0},
    ]
    optimizers = [torch.optim.AdamW(groups, **OPTIMIZER)]
    if hidden:
        matrices = [named[key] for key in hidden]
        settings = dict(lr=OPTIMIZER["lr"], weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
        optimizers.append(torch.optim.Muon(matrices, **settings))
    for _ in range(STEPS):
        model.zero_grad()
        forward(model, ids)[1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for optimizer in optimizers:
            optimizer.step()
    after = {f"{name}.after.{key}": parameter for key, parameter in named.items()}
    return after | {f"{name}.last_loss": forward(model, ids)[1][None]}


def listen():
    """What transformers logs from here on. Warnings become errors."""
    warnings.simplefilter("error")
    said = []
    handler = transformers.utils.logging.logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    transformers.utils.logging.add_handler(handler)
    transformers.utils.logging.disable_progress_bar()
    return said


def about(directory):
    said = listen()
    model = AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    chat = [{"role": "user", "content": "hi"}]
    generation = model.generation_config
    print(
        json.dumps(
            {
                "chat": tokenizer.apply_chat_template(chat, tokenize=False),
                "dtype": str(model.dtype),
                "end": generation.eos_token_id,
                "longest": [model.config.max_position_embeddings, tokenizer.model_max_length],
                "pad": [generation.pad_token_id, tokenizer.pad_token],
                "said": said,
                "sampling": [generation.do_sample, generation.temperature, generation.top_p],
                "templates": sorted(tokenizer.chat_template),
                "unk": tokenizer.unk_token,
            }
        )
    )


def rounded(whole, other):
    whole, other = (load_file(Path(path) / "model.safetensors") for path in (whole, other))
    assert whole.keys() == other.keys()
    for name, tensor in whole.items():
        assert other[name].dtype != tensor.dtype and torch.equal(tensor.to(other[name].dtype), other[name]), name


def adapter(merged, directory, ids):
    from peft import AutoPeftModelForCausalLM

    ids = torch.tensor([json.loads(ids)])
    # The adapter names its base model.
    models = {
        "merged": AutoModelForCausalLM.from_pretrained(merged),
        "adapter": AutoPeftModelForCausalLM.from_pretrained(directory, is_trainable=True).eval(),
    }
    with torch.no_grad():
        found = {name: model(ids).logits[0].flatten().tolist() for name, model in models.items()}
    trained = sum(weights.numel() for weights in models["adapter"].parameters() if weights.requires_grad)
    print(json.dumps(found | {"trained": trained}))


def read(directory, prompt, texts):
    said = listen()
    model, info = AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    # For any model of this type AutoTokenizer makes Qwen2's own tokenizer out of the vocabulary.
    is_qwen2 = model.config.model_type == "qwen2"
    tokenizer = (PreTrainedTokenizerFast if is_qwen2 else AutoTokenizer).from_pretrained(directory)
    inputs = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        logits = model(inputs["input_ids"]).logits
        out = model.generate(**inputs, do_sample=False, max_new_tokens=24)
    said += [f"{key}: {value}" for key, value in info.items() if value]
    new = out[0][inputs["input_ids"].shape[1] :]
    print(
        json.dumps(
            {
                "kind": type(model).__name__,
                "ids": inputs["input_ids"][0].tolist(),
                "logits": logits[0].flatten().tolist(),
                "text": tokenizer.decode(new, skip_special_tokens=True),
                "begin": tokenizer.bos_token,
                "end": tokenizer.eos_token,
                "texts": [tokenizer(text)["input_ids"] for text in json.loads(texts)],
                "said": said,
            }
        )
    )


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"make": lambda path: make(Path(path)), "read": read, "about": about, "adapter": adapter, "rounded": rounded}[command](*arguments)
