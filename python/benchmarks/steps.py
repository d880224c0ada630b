"""The cases of `crates/samebits/benches/steps.rs` in PyTorch, with deterministic algorithms.

Prints the same columns: name, median ms, least ms, CPU ms of a call. Arguments are parts of the
names to run; the environment sets `REPS` (7), `THREADS` (2), `REVERSE` (0; 1 runs the last case
first) and `DETERMINISTIC` (1).
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

WANTED = [part for argument in sys.argv[1:] for part in argument.split(",")]
REPS = int(os.environ.get("REPS", "7"))


class Turn:
    """The action of a group when it is called: runs its cases, lists their names, or runs one."""

    names: list[str] | None = None
    only: str | None = None


def runs(name: str) -> bool:
    """Returns whether the case of this name runs now."""
    if WANTED and not any(part in name for part in WANTED):
        return False
    if Turn.names is not None:
        Turn.names.append(name)
        return False
    return Turn.only in (None, name)


def backwards(group: Callable[[], None]) -> None:
    """Runs the cases of a group from the last to the first."""
    names: list[str] = []
    Turn.names = names
    group()
    Turn.names = None
    for name in reversed(names):
        Turn.only = name
        group()


def case(name: str, call: Callable[[], object]) -> None:
    """Times `call`, if its case runs now."""
    if not runs(name):
        return
    for _ in range(2):
        call()
    times = []
    before = time.process_time()
    for _ in range(REPS):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    busy = (time.process_time() - before) * 1e3 / REPS
    print(f"{name}\t{statistics.median(times):.3f}\t{min(times):.3f}\t{busy:.3f}", flush=True)


def forward(name: str, call: Callable[[], object]) -> None:
    """Times a result alone."""

    def without_graph() -> object:
        with torch.no_grad():
            return call()

    case(name, without_graph)


def both(name: str, call: Callable[[], Tensor], leaves: Sequence[Tensor]) -> None:
    """Times a result and the gradients of `leaves`, given one of the result."""
    if not runs(name):
        return
    grad = torch.randn_like(call())
    case(name, lambda: torch.autograd.grad(call(), leaves, grad))


def step(
    name: str, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]
) -> None:
    """Times a training step."""

    def one() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    model.train()
    case(name, one)


def leaf(*shape: int) -> Tensor:
    """Returns normal numbers that require a gradient."""
    return torch.randn(*shape).requires_grad_()


def below(high: int, *shape: int) -> Tensor:
    """Returns integers from 0 to below `high`."""
    return torch.randint(0, high, shape)


class Block(nn.Module):
    """A layer of the transformer."""

    def __init__(self, c: int, heads: int) -> None:
        """Creates a layer of width `c`."""
        super().__init__()
        self.ln1, self.qkv, self.proj = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.ln2, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """Computes the layer for `[n, t, c]`."""
        n, t, c = x.shape
        parts = self.qkv(self.ln1(x)).split(c, 2)
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(found.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    """A small language model."""

    def __init__(self, words: int, c: int, layers: int, heads: int, t: int) -> None:
        """Creates a model of `layers` blocks."""
        super().__init__()
        self.emb, self.pos = nn.Embedding(words, c), nn.Parameter(torch.randn(t, c))
        self.blocks = nn.Sequential(*[Block(c, heads) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(c), nn.Linear(c, words)

    def forward(self, ids: Tensor) -> Tensor:
        """Computes the model for `[n, t]`."""
        return self.head(self.ln(self.blocks(self.emb(ids) + self.pos)))


def steps() -> None:
    """Times training steps."""
    mlp = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = torch.randn(256, 784), below(10, 256)
    sgd = torch.optim.SGD(mlp.parameters(), 0.01, 0.9)
    step("step_mlp", mlp, sgd, lambda: F.cross_entropy(mlp(x), y))

    layers: list[nn.Module] = []
    for channels in (3, 64, 64, 64, 64):
        layers += [nn.Conv2d(channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    cnn = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    images, kinds = torch.randn(16, 3, 32, 32), below(10, 16)
    sgd = torch.optim.SGD(cnn.parameters(), 0.01, 0.9)
    step("step_cnn", cnn, sgd, lambda: F.cross_entropy(cnn(images), kinds))

    def language(name: str, batch: int, length: int) -> None:
        gpt = Gpt(1000, 256, 2, 4, length)
        ids, words = below(1000, batch, length), below(1000, batch * length)
        adam = torch.optim.AdamW(gpt.parameters(), 1e-3, weight_decay=0.0)
        step(name, gpt, adam, lambda: F.cross_entropy(gpt(ids).view(-1, 1000), words))

    language("step_gpt", 8, 128)
    language("step_gpt_1x512", 1, 512)

    lstm = nn.LSTM(256, 256)
    sequence, grad = leaf(64, 32, 256), torch.randn(64, 32, 256)
    leaves = [sequence, *lstm.parameters()]
    case("step_lstm", lambda: torch.autograd.grad(lstm(sequence)[0], leaves, grad))

    items = nn.EmbeddingBag(100_000, 64, mode="sum")
    out = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2))
    history, bought = below(100_000, 512, 64), below(2, 512)
    optimizer = torch.optim.SGD(out.parameters(), 0.01, 0.9)

    def recommender() -> None:
        items.weight.grad = None
        optimizer.zero_grad()
        F.cross_entropy(out(items(history)), bought).backward()
        optimizer.step()

    case("step_recsys", recommender)


def products() -> None:
    """Times products of matrices."""

    def product(name: str, left: Sequence[int], right: Sequence[int]) -> None:
        a, b = torch.randn(*left), torch.randn(*right)
        forward(name, lambda: a @ b)

    for n in (128, 512, 1024, 2048):
        product(f"matmul_{n}", (n, n), (n, n))
    product("matmul_8192x64x64", (8192, 64), (64, 64))
    product("matvec_4096", (1, 4096), (4096, 4096))
    product("bmm_64x128x64x128", (64, 128, 64), (64, 64, 128))
    product("bmm_4096x16", (4096, 16, 16), (4096, 16, 16))


def convolutions() -> None:
    """Times convolutions."""

    def conv(
        name: str, x: Tensor, w: Tensor, alone: bool, call: Callable[..., Tensor], **options: int
    ) -> None:
        if alone:
            forward(name + "_fwd", lambda: call(x, w, **options))
        both(name + "_both", lambda: call(x, w, **options), (x, w))

    conv("conv3x3", leaf(16, 64, 56, 56), leaf(64, 64, 3, 3), True, F.conv2d, padding=1)
    conv("conv1x1", leaf(16, 256, 28, 28), leaf(64, 256, 1, 1), True, F.conv2d)
    depthwise = (leaf(8, 96, 56, 56), leaf(96, 1, 3, 3))
    conv("depthwise", *depthwise, True, F.conv2d, padding=1, groups=96)
    strided = (leaf(4, 3, 224, 224), leaf(64, 3, 7, 7))
    conv("conv7x7s2", *strided, True, F.conv2d, padding=3, stride=2)
    conv("conv1d", leaf(16, 64, 1000), leaf(64, 64, 5), False, F.conv1d, padding=2)
    conv("conv3d", leaf(2, 16, 16, 32, 32), leaf(32, 16, 3, 3, 3), False, F.conv3d, padding=1)


def elements() -> None:
    """Times elementwise operations, and calls that do little."""
    x, y = torch.randn(16_000_000), torch.randn(16_000_000)
    wanted = x.clone().requires_grad_()
    forward("add_16M", lambda: x + y)
    forward("exp_16M", lambda: x.exp())
    forward("tanh_16M", lambda: x.tanh())
    forward("sin_16M", lambda: x.sin())
    forward("sum_16M", lambda: x.sum())
    forward("cumsum_16M", lambda: x.cumsum(0))
    both("gelu_16M_both", lambda: F.gelu(wanted), [wanted])
    forward("dropout_16M", lambda: F.dropout(x))
    a, b = torch.randn(10), torch.randn(10)
    case("tiny_add_x1000", lambda: [a + b for _ in range(1000)] and None)
    row, weight, bias = leaf(1, 16), leaf(16, 16), leaf(16)

    def linear() -> None:
        for _ in range(1000):
            torch.autograd.grad(F.linear(row, weight, bias).sum(), (row, weight, bias))

    case("tiny_linear_both_x1000", linear)


def rows() -> None:
    """Times operations on rows and images."""
    x = torch.randn(4096, 4096)
    forward("softmax_4096", lambda: x.softmax(1))
    forward("transpose_copy_4096", lambda: x.t().contiguous())
    forward("sum_dim0_4096", lambda: x.sum(0))
    forward("argmax_4096", lambda: x.argmax(1))
    forward("topk_50_4096", lambda: x.topk(50, 1))
    forward("sort_rows_4096", lambda: torch.sort(x, dim=1, stable=True))
    wide, weight, bias = leaf(4096, 1024), leaf(1024), leaf(1024)
    normal = [wide, weight, bias]
    both("layer_norm_both", lambda: F.layer_norm(wide, (1024,), weight, bias), normal)
    norm, images = nn.BatchNorm2d(64), leaf(16, 64, 56, 56)
    both("batch_norm_both", lambda: norm(images), [images, *norm.parameters()])
    logits, kinds = leaf(2048, 4000), below(4000, 2048)
    case(
        "cross_entropy_both_2048x4000",
        lambda: torch.autograd.grad(F.cross_entropy(logits, kinds), logits),
    )
    both("max_pool_both", lambda: F.max_pool2d(images, 3, 2, 1), [images])
    both("reflect_pad_both", lambda: F.pad(images, (3, 3, 3, 3), mode="reflect"), [images])
    resized = {"scale_factor": 2, "mode": "bilinear"}
    both("bilinear_both", lambda: F.interpolate(images, **resized), [images])
    grid = (torch.rand(16, 56, 56, 2) * 2 - 1).requires_grad_()
    sampled = [images, grid]
    both("grid_sample_both", lambda: F.grid_sample(images, grid, align_corners=False), sampled)


def indices() -> None:
    """Times operations by index."""
    zeros, source = torch.zeros(100_000, 16), torch.randn(1_000_000, 16)
    index = below(100_000, 1_000_000)
    forward("index_add", lambda: zeros.index_add(0, index, source))
    forward("index_select", lambda: zeros.index_select(0, index))
    flat, addends = torch.zeros(1_000_000), torch.randn(4_000_000)
    places = below(1_000_000, 4_000_000)
    forward("scatter_add", lambda: flat.scatter_add(0, places, addends))
    labels, weights = below(1000, 8_000_000), torch.randn(8_000_000)
    forward("bincount_w", lambda: torch.bincount(labels, weights, minlength=1000))
    table, ids = leaf(32_000, 256), below(32_000, 64, 512)
    both("embedding_both", lambda: F.embedding(ids, table), [table])
    sound = torch.randn(150, 32, 60).log_softmax(2).requires_grad_()
    text = torch.randint(1, 60, (32, 30))
    lengths = torch.full((32,), 150), torch.full((32,), 30)
    case("ctc_both", lambda: torch.autograd.grad(F.ctc_loss(sound, text, *lengths), sound))


def others() -> None:
    """Times random numbers, sorting and decompositions."""
    case("randn_16M", lambda: torch.randn(16_000_000))
    case("rand_16M", lambda: torch.rand(16_000_000))
    case("randperm_4M", lambda: torch.randperm(4_000_000))
    x, labels = torch.randn(4_000_000), below(100_000, 4_000_000)
    forward("sort_4M", lambda: torch.sort(x, stable=True))
    forward("unique_4M", lambda: labels.unique(return_inverse=True, return_counts=True))
    forward("median_4M", lambda: x.median())
    square, small = torch.randn(256, 256), torch.randn(128, 128)
    forward("qr_256", lambda: torch.linalg.qr(square))
    forward("svd_128", lambda: torch.linalg.svd(small))


def attention() -> None:
    """Times attention."""

    def pair(name: str, query: Sequence[int], key: Sequence[int], **options: object) -> None:
        x = [leaf(*query), leaf(*key), leaf(*key)]

        def call() -> Tensor:
            return F.scaled_dot_product_attention(*x, **options)

        forward(f"attention_{name}_fwd", call)
        both(f"attention_{name}_both", call, x)

    for shape in (
        (4, 8, 256, 64),
        (1, 4, 1024, 32),
        (2, 12, 1024, 64),
        (3, 5, 333, 40),
        (1, 1, 2048, 128),
        (32, 4, 48, 16),
    ):
        name = "x".join(map(str, shape))
        pair(name, shape, shape)
        pair(f"{name}_causal", shape, shape, is_causal=True)
    pair("groups", (1, 8, 512, 64), (1, 2, 512, 64), is_causal=True, enable_gqa=True)
    square = (4, 8, 256, 64)
    pair("mask", square, square, attn_mask=torch.rand(4, 1, 1, 256) < 0.8)
    pair("bias", square, square, attn_mask=torch.randn(8, 256, 256))
    pair("cross", (4, 8, 100, 64), (4, 8, 700, 64))
    pair("cache", (4, 8, 1, 64), (4, 8, 1000, 64))


def halves() -> None:
    """Times other cases in bfloat16."""

    def of(*shape: int) -> Tensor:
        return torch.randn(*shape).bfloat16()

    def parameter(*shape: int) -> Tensor:
        return of(*shape).requires_grad_()

    a, b = of(2048, 2048), of(2048, 2048)
    forward("bf16_matmul_2048", lambda: a @ b)
    row, square = of(1, 4096), of(4096, 4096)
    forward("bf16_matvec_4096", lambda: row @ square)
    x, weight, bias = parameter(1024, 1024), parameter(1024, 1024), parameter(1024)
    both("bf16_linear_1024_both", lambda: F.linear(x, weight, bias), [x, weight, bias])
    wide = of(4096, 4096)
    forward("bf16_add_4096", lambda: wide + wide)
    forward("bf16_softmax_4096", lambda: wide.softmax(1))
    rows, scale, shift = parameter(4096, 1024), parameter(1024), parameter(1024)
    both(
        "bf16_layer_norm_both",
        lambda: F.layer_norm(rows, (1024,), scale, shift),
        [rows, scale, shift],
    )
    gpt = Gpt(1000, 256, 2, 4, 128)
    ids, words = below(1000, 8, 128), below(1000, 8 * 128)
    adam = torch.optim.AdamW(gpt.parameters(), 1e-3, weight_decay=0.0)

    def loss() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(gpt(ids).view(-1, 1000), words)

    step("step_gpt_bf16", gpt, adam, loss)


def main() -> None:
    """Runs every case in the order of the Rust program."""
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    deterministic = os.environ.get("DETERMINISTIC", "1") == "1"
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.manual_seed(1)
    groups = (steps, products, convolutions, elements, rows, indices, others, attention, halves)
    if os.environ.get("REVERSE", "0") == "1":
        for group in reversed(groups):
            backwards(group)
    else:
        for group in groups:
            group()


if __name__ == "__main__":
    main()
