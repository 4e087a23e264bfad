"""What is trained, and by whom. All trainers get the same bytes in the same rows, and one set of hyperparameters."""

# 124 million parameters are those of GPT-2's vocabulary with a tied head.
SHAPES = {
    "1.4M": {"layers": 4, "width": 128, "heads": 4, "d_ff": 384, "vocab": 4096, "length": 128, "rows": 16, "steps": 60},
    "27M": {"layers": 6, "width": 512, "heads": 8, "d_ff": 1376, "vocab": 16000, "length": 256, "rows": 16, "steps": 12},
    "124M": {"layers": 12, "width": 768, "heads": 12, "d_ff": 2048, "vocab": 50257, "length": 512, "rows": 4, "steps": 8},
}
# A GPU gets the rows of `configs/gpt-124m.toml`.
ON_GPU = {**SHAPES, "124M": {**SHAPES["124M"], "length": 1024, "rows": 16, "steps": 20}}

# AdamW without a schedule, so that a step's work and rate are the same at each step.
OPTIMIZER = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0}

# PyTorch's ways: (precision, whether torch.compile is used). `bf16 pure` keeps the parameters and the moments in bf16
# too; such a model takes less memory, and small updates are rounded away.
PEERS = {
    "PyTorch f32": ("f32", False),
    "PyTorch f32 compiled": ("f32", True),
    "PyTorch bf16 autocast": ("autocast", False),
    "PyTorch bf16 autocast compiled": ("autocast", True),
    "PyTorch bf16 pure": ("bf16", False),
    "PyTorch bf16 pure compiled": ("bf16", True),
}
OURS = "Millstream f32"

# The first steps compile, tune and fill caches.
WARMUP = 3


def parameters(shape):
    """How many parameters the model has."""
    width, d_ff = shape["width"], shape["d_ff"]
    block = 4 * width * width + 3 * width * d_ff + 2 * width
    return shape["layers"] * block + width + shape["vocab"] * width


def flops(shape):
    """The floating-point operations of one target, as PaLM's appendix B counts them."""
    width = shape["width"]
    matrices = shape["layers"] * (4 * width * width + 3 * width * shape["d_ff"]) + shape["vocab"] * width
    return 6 * matrices + 12 * shape["layers"] * width * shape["length"]
