"""The PyTorch side of `cargo xtask bench --random` and of `cargo xtask gpu-bundle`.

Reads a line of JSON, does what it says, and prints one: `{"prepare": case}` makes a case's inputs
and warms it up, `{"run": n}` calls it `n` times, with deterministic algorithms, and
`{"time": case, "name": .., "level": ..}` does all of this on a device, with deterministic algorithms
if the level is `portable`, and says when the device is done. `crates/samebits/benches/random.rs` is
the same in samebits. The environment gives `THREADS` (2) and `DEVICE` (cpu). TF32 is off.
"""

import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

DEVICE = os.environ.get("DEVICE", "cpu")

Case = dict[str, Any]
Call = Callable[[], object]


def make(spec: Case, dtype: torch.dtype) -> Tensor:
    """Makes an input."""
    shape, fill = spec["shape"], spec["fill"]
    if fill == "normal":
        x = torch.randn(shape, dtype=dtype, device=DEVICE)
    elif fill == "unit":
        x = torch.rand(shape, dtype=dtype, device=DEVICE)
    elif fill == "positive":
        x = torch.rand(shape, dtype=dtype, device=DEVICE) + 0.5
    elif fill == "mask":
        x = torch.rand(shape, device=DEVICE) > 0.5
    elif "uniform" in fill:
        x = torch.randint(0, fill["uniform"], shape, device=DEVICE)
    else:
        x = torch.rand(shape, dtype=torch.float64, device=DEVICE)
        x = (x**4 * (fill["skewed"] - 0.5)).long()
    for view in spec["views"]:
        ((kind, values),) = view.items()
        if kind == "permute":
            x = x.permute(values)
        elif kind == "narrow":
            x = x.narrow(*values)
        else:
            x = x.expand(values)
    return x


def bincount(x: list[Tensor], bins: int) -> Tensor:
    """Counts, or sums of weights."""
    return torch.bincount(x[0], x[1] if len(x) > 1 else None, minlength=bins)


def conv(x: list[Tensor], p: Case, transposed: bool) -> Tensor:
    """Calls the convolution of the input's rank."""
    plain = (F.conv1d, F.conv2d, F.conv3d)
    functions = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d) if transposed else plain
    bias = x[2] if len(x) > 2 else None
    options = {name: p[name] for name in ("stride", "padding", "dilation", "groups")}
    return functions[x[0].dim() - 3](x[0], x[1], bias, **options)


def pool(x: Tensor, p: Case, kind: str) -> Any:
    """Calls the pooling of the input's rank."""
    rank = x.dim() - 2
    if kind == "adaptive":
        return getattr(F, f"adaptive_avg_pool{rank}d")(x, p["size"])
    options = {"return_indices": True} if kind == "max" else {}
    function = getattr(F, f"{kind}_pool{rank}d")
    return function(x, p["kernel"], p["stride"], p["padding"], **options)


def resized(x: Tensor, p: Case) -> Tensor:
    """Interpolates."""
    corners = {} if p["mode"] == "nearest" else {"align_corners": False}
    return F.interpolate(x, size=p["size"], mode=p["mode"], **corners)


def padded(x: Tensor, p: Case) -> Tensor:
    """Pads with the last dimension first, as both libraries have it."""
    return F.pad(x, p["pads"], mode=p["mode"])


UNARY = {
    name: getattr(torch, name)
    for name in (
        "exp tanh sigmoid sin cos erf expm1 relu abs neg square log sqrt rsqrt reciprocal log1p log2"
    ).split()
} | {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "elu": F.elu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "log_sigmoid": F.logsigmoid,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "affine": lambda x: x * 2.0 + 1.0,
}

BINARY = {
    name: getattr(torch, name) for name in "add sub mul div maximum minimum pow lt".split()
}

LOSSES = {
    "cross_entropy": F.cross_entropy,
    "nll_loss": F.nll_loss,
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "kl_div": F.kl_div,
}

REDUCED = {
    "sum": torch.sum,
    "mean": torch.mean,
    "var": torch.var,
    "std": torch.std,
    "amax": torch.amax,
    "amin": torch.amin,
    "logsumexp": torch.logsumexp,
    "norm": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
}

ALONG = {
    name: getattr(torch, name)
    for name in (
        "argmax argmin max min any all prod softmax log_softmax cumsum cumprod cummax cummin "
        "logcumsumexp median"
    ).split()
}

OTHERS: dict[str, Callable[[list[Tensor], Case], Any]] = {
    "where": lambda x, p: torch.where(*x),
    "masked_fill": lambda x, p: x[1].masked_fill(x[0], 0.0),
    "addcmul": lambda x, p: torch.addcmul(*x, value=0.5),
    "lerp": lambda x, p: torch.lerp(*x),
    "layer_norm": lambda x, p: F.layer_norm(x[0], x[1].shape, x[1], x[2]),
    "rms_norm": lambda x, p: F.rms_norm(x[0], x[1].shape, x[1], 1e-5),
    "batch_norm": lambda x, p: F.batch_norm(x[0], None, None, x[1], x[2], training=True),
    "group_norm": lambda x, p: F.group_norm(x[0], p["groups"], x[1], x[2]),
    "instance_norm": lambda x, p: F.instance_norm(x[0], None, None, x[1], x[2]),
    "gather": lambda x, p: torch.gather(x[0], p["dim"], x[1]),
    "index_select": lambda x, p: x[0].index_select(p["dim"], x[1]),
    "index_add": lambda x, p: x[0].index_add(p["dim"], x[1], x[2]),
    "index_copy": lambda x, p: x[0].index_copy(p["dim"], x[1], x[2]),
    "scatter_add": lambda x, p: x[0].scatter_add(p["dim"], x[1], x[2]),
    "scatter_reduce": lambda x, p: x[0].scatter_reduce(
        p["dim"], x[1], x[2], p["reduce"], include_self=p["include_self"]
    ),
    "embedding": lambda x, p: F.embedding(x[1], x[0]),
    "embedding_bag": lambda x, p: F.embedding_bag(x[1], x[0], mode=p["mode"]),
    "bincount": lambda x, p: bincount(x, p["bins"]),
    "matmul": lambda x, p: x[0] @ x[1],
    "bmm": lambda x, p: torch.bmm(x[0], x[1]),
    "mv": lambda x, p: torch.mv(x[0], x[1]),
    "linear": lambda x, p: F.linear(*x),
    "addmm": lambda x, p: torch.addmm(*x),
    "conv": lambda x, p: conv(x, p, transposed=False),
    "conv_transpose": lambda x, p: conv(x, p, transposed=True),
    "max_pool": lambda x, p: pool(x[0], p, "max"),
    "avg_pool": lambda x, p: pool(x[0], p, "avg"),
    "adaptive_avg_pool": lambda x, p: pool(x[0], p, "adaptive"),
    "interpolate": lambda x, p: resized(x[0], p),
    "grid_sample": lambda x, p: F.grid_sample(*x, mode=p["mode"], align_corners=False),
    "pad": lambda x, p: padded(x[0], p),
    "pixel_shuffle": lambda x, p: F.pixel_shuffle(x[0], p["factor"]),
    "sort": lambda x, p: torch.sort(
        x[0], dim=p["dim"], descending=p["descending"], stable=True
    ),
    "argsort": lambda x, p: torch.argsort(
        x[0], dim=p["dim"], descending=p["descending"], stable=True
    ),
    "topk": lambda x, p: torch.topk(x[0], p["k"], p["dim"]),
    "kthvalue": lambda x, p: torch.kthvalue(x[0], p["k"], p["dim"]),
    "unique": lambda x, p: torch.unique(x[0], return_inverse=True, return_counts=True),
    "attention": lambda x, p: F.scaled_dot_product_attention(*x, is_causal=p["causal"]),
    "qr": lambda x, p: torch.linalg.qr(x[0]),
    "svd": lambda x, p: torch.linalg.svd(x[0], full_matrices=False),
    # A copy, though the order may have left the layout dense.
    "contiguous": lambda x, p: x[0].reshape(-1),
    "cat": lambda x, p: torch.cat(x, p["dim"]),
    "stack": lambda x, p: torch.stack(x, p["dim"]),
    "flip": lambda x, p: torch.flip(x[0], p["dims"]),
    "roll": lambda x, p: torch.roll(x[0], p["shift"], p["dim"]),
    "repeat": lambda x, p: x[0].repeat(p["sizes"]),
    "tril": lambda x, p: torch.tril(x[0], p["diagonal"]),
}

STEPS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda x: torch.optim.SGD(x, 0.01),
    "momentum": lambda x: torch.optim.SGD(x, 0.01, 0.9),
    "adam": lambda x: torch.optim.Adam(x, 1e-3),
    "adamw": lambda x: torch.optim.AdamW(x, 1e-3),
    "rmsprop": lambda x: torch.optim.RMSprop(x, 1e-3),
    "adagrad": lambda x: torch.optim.Adagrad(x, 1e-3),
}


def result(op: str, x: list[Tensor], p: Case) -> Any:
    """Calls the operation `op`."""
    if op in UNARY:
        return UNARY[op](x[0])
    if op in BINARY:
        return BINARY[op](x[0], x[1])
    if op in LOSSES:
        return LOSSES[op](x[0], x[1], reduction=p["reduction"])
    if op in REDUCED:
        return REDUCED[op](x[0], dim=p["dims"], keepdim=p["keepdim"])
    if op in ALONG:
        return ALONG[op](x[0], p["dim"])
    return OTHERS[op](x, p)


def first(results: Any) -> Tensor:
    """The result that has a gradient."""
    return results if isinstance(results, Tensor) else results[0]


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, c: int, heads: int) -> None:
        """Of width `c`."""
        super().__init__()
        self.ln1, self.qkv, self.proj = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.ln2, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """Of `[n, t, c]`."""
        n, t, c = x.shape
        parts = self.qkv(self.ln1(x)).split(c, 2)
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(found.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Transformer(nn.Module):
    """Blocks, and a classifier of the mean position."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        """Of `depth` blocks."""
        super().__init__()
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Of `[n, t, c]`."""
        return self.head(self.blocks(x).mean(1))


class Recurrent(nn.Module):
    """A recurrent network, and a classifier of its last output."""

    def __init__(self, kind: type[nn.RNNBase], inputs: int, width: int, depth: int) -> None:
        """Of `depth` layers."""
        super().__init__()
        self.body, self.head = kind(inputs, width, depth), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Of `[t, n, c]`."""
        return self.head(self.body(x)[0][-1])


def model(op: str, p: Case) -> tuple[nn.Module, Tensor]:
    """The model of a case, and its batch."""
    batch, depth = p["batch"], p["depth"]
    if op == "mlp":
        inputs, width = p["inputs"], p["width"]
        layers: list[nn.Module] = []
        for layer in range(depth):
            layers.append(nn.Linear(width if layer else inputs, width))
            layers += [nn.LayerNorm(width)] if p["norm"] else []
            layers.append(nn.ReLU())
        return nn.Sequential(*layers, nn.Linear(width, 10)), torch.randn(batch, inputs)
    if op == "cnn":
        width, size = p["width"], p["size"]
        layers = []
        for layer in range(depth):
            layers.append(nn.Conv2d(width if layer else 3, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] if p["norm"] else []
            layers.append(nn.ReLU())
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        return nn.Sequential(*layers), torch.randn(batch, 3, size, size)
    if op == "transformer":
        width = p["width"]
        return Transformer(depth, width, p["heads"]), torch.randn(batch, p["length"], width)
    kind = nn.LSTM if op == "lstm" else nn.GRU
    body = Recurrent(kind, p["inputs"], p["width"], depth)
    return body, torch.randn(p["length"], batch, p["inputs"])


def model_call(op: str, p: Case) -> Call:
    """A step of training, or a forward pass."""
    net, x = model(op, p)
    net, x = net.to(DEVICE), x.to(DEVICE)
    if not p["train"]:
        net.eval()

        def infer() -> object:
            with torch.no_grad():
                return net(x)

        return infer
    y = torch.randint(0, 10, (p["batch"],), device=DEVICE)
    parameters = list(net.parameters())
    optimizer = STEPS["momentum" if p["optimizer"] == "sgd" else "adam"](parameters)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def prepare(case: Case) -> Call:
    """Makes what is timed."""
    op, p = case["op"], case["params"]
    if not case["inputs"]:
        return model_call(op, p)
    dtype = torch.float64 if case["dtype"] == "f64" else torch.float32
    x = [make(spec, dtype) for spec in case["inputs"]]
    if op in STEPS:
        x = [tensor.requires_grad_() for tensor in x]
        for tensor, spec in zip(x, case["inputs"], strict=True):
            tensor.grad = make(spec, dtype)
        return STEPS[op](x).step
    if not case["both"]:

        def forward() -> object:
            with torch.no_grad():
                return result(op, x, p)

        return forward
    leaves = []
    for tensor, spec in zip(x, case["inputs"], strict=True):
        if spec["grad"]:
            leaves.append(tensor.requires_grad_())
    with torch.no_grad():
        grad = torch.randn_like(first(result(op, x, p)))
    return lambda: torch.autograd.grad(first(result(op, x, p)), leaves, grad)


def timed(call: Call, calls: int) -> Case:
    """The median of the calls' times and the mean of their processor times, in milliseconds."""
    times = []
    before = time.process_time()
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"ms": statistics.median(times), "busy": (time.process_time() - before) * 1e3 / calls}


def synchronize() -> None:
    """Waits for the device."""
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def batch(call: Call, calls: int) -> float:
    """The milliseconds of a call, from a batch of calls that ends when the device is done."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - start) * 1e3 / calls


def on_device(question: Case) -> Case:
    """The median of batches of calls; names operations that have no deterministic variant."""
    deterministic = question["level"] == "portable"
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.backends.cudnn.deterministic = deterministic
    torch.manual_seed(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call = prepare(question["time"])
        call()
        synchronize()
        ms = batch(call, 1)
    calls = max(1, min(2000, int(20 / ms)))
    batches = max(1, min(9, int(200 / (ms * calls))))
    reply = {"ms": statistics.median(batch(call, calls) for _ in range(batches))}
    lacking = [str(one.message) for one in said if "deterministic" in str(one.message)]
    return reply | {"not_deterministic": bool(lacking)}


def main() -> None:
    """Answers questions until there are no more."""
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    call: Call | None = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if "time" in question:
                reply = on_device(question)
            elif "prepare" in question:
                call = None
                torch.manual_seed(1)
                call = prepare(question["prepare"])
                call()
                reply = timed(call, 1)
            elif call is None:
                reply = {"error": "no case is prepared"}
            else:
                reply = timed(call, question["run"])
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, MemoryError) as error:
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        if "time" in question:
            reply |= {"name": question["name"], "level": question["level"]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
