"""One trainer of PyTorch in a process of its own: takes a JSON object on the command line, prints one.

The model is Millstream's, written plainly: RMSNorm, rotary positions in split halves, causal attention by PyTorch's
scaled_dot_product_attention, SwiGLU, no biases, a tied head. AdamW is PyTorch's fused one.
"""

import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, self.gain.shape, self.gain, 1e-5)


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, d_ff, self.heads = shape["width"], shape["d_ff"], shape["heads"]
        self.attention_norm, self.mlp_norm = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * d_ff, bias=False)
        self.down = nn.Linear(d_ff, width, bias=False)

    def forward(self, x, cos, sin):
        rows, length, width = x.shape
        parts = self.qkv(self.attention_norm(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = rotated(parts[0], cos, sin), rotated(parts[1], cos, sin), parts[2]
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, length, width))
        gate, up = self.up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        width, layers = shape["width"], shape["layers"]
        self.embedding = nn.Embedding(shape["vocab"], width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(layers))
        self.norm = Norm(width)
        head = width // shape["heads"]
        frequencies = 10_000.0 ** (-torch.arange(0, head, 2) / head)
        angles = torch.outer(torch.arange(shape["length"]), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        deviation = 0.02 * math.sqrt(768 / width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                to_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=deviation / math.sqrt(2 * layers) if to_residual else deviation)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def train(shape, optimizer, precision, compiled, corpus, device, threads):
    """The loss and the seconds of each step."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Model(shape).to(device)
    if precision == "bf16":
        model.to(torch.bfloat16)
    groups = [[p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() == 1]]
    adamw = torch.optim.AdamW(
        [{"params": groups[0], "weight_decay": optimizer["weight_decay"]}, {"params": groups[1], "weight_decay": 0.0}],
        lr=optimizer["lr"],
        betas=(optimizer["beta1"], optimizer["beta2"]),
        eps=optimizer["epsilon"],
        fused=True,
    )
    step = torch.compile(model) if compiled else model
    with open(corpus, "rb") as file:
        ids = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    rows, length, seen = shape["rows"], shape["length"], []
    for number in range(shape["steps"]):
        # Rows overlap by one id, as Millstream's do.
        at = number * rows * length
        batch = ids[at : at + rows * length + 1].long().to(device)
        inputs, targets = batch[:-1].view(rows, length), batch[1:].view(rows, length)
        began = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
            loss = step(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), optimizer["clip"])
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        seen.append({"loss": loss.item(), "seconds": time.perf_counter() - began})
    return seen


def peak_memory():
    """The most memory of the host that this process had, in bytes. Linux: /proc says it."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    # Autocast casts the parameters of each step; a compiled step keeps its kernels in inductor's cache between runs.
    steps = train(**asked, threads=len(os.sched_getaffinity(0)))
    gpu = None if asked["device"] == "cpu" else torch.cuda.get_device_name()
    print(json.dumps({"steps": steps, "peak_memory": peak_memory(), "version": torch.__version__, "gpu": gpu}))
