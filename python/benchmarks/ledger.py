"""The cost of a recorder per training step: processor time with it, divided by that without.

Every detail, and every operation with sampled digests, by turns in one process; the median of the
turns. Arguments are parts of the names to run; the environment sets `TURNS` (4) and `THREADS` (1).
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import samebits_ledger
from steps import Gpt, below

TURNS = int(os.environ.get("TURNS", "4"))
WAYS: tuple[dict[str, str] | None, ...] = (
    None,
    {"detail": "step"},
    {"detail": "layer"},
    {"detail": "op"},
    {"detail": "op", "digests": "sampled"},
)


def measure(name: str, steps: int, model: nn.Module, make: object, loss: Callable[[], Tensor]) -> None:
    """Prints the milliseconds of a step, and the factors."""
    if len(sys.argv) > 1 and not any(part in name for part in sys.argv[1:]):
        return
    optimizer = make(model.parameters())

    def train(way: dict[str, str] | None, path: Path) -> float:
        def run() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                loss().backward()
                optimizer.step()

        before = time.process_time()
        if way is None:
            run()
        else:
            with samebits_ledger.record(path, **way):
                run()
            path.unlink()
        return (time.process_time() - before) / steps

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        for way in WAYS:
            train(way, path)
        taken = [[train(way, path) for way in WAYS] for _ in range(TURNS)]
    alone = statistics.median(turn[0] for turn in taken)
    factors = [statistics.median(turn[i] / turn[0] for turn in taken) for i in range(1, len(WAYS))]
    shown = "".join(f" {factor:10.2f}" for factor in factors)
    print(f"{name:12} {alone * 1e3:9.1f} ms{shown}", flush=True)


class Recommender(nn.Module):
    """Sums of embeddings, and a perceptron."""

    def __init__(self) -> None:
        """Creates a model of 100,000 items of width 64."""
        super().__init__()
        self.items = nn.EmbeddingBag(100_000, 64, mode="sum")
        self.out = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, ids: Tensor) -> Tensor:
        """Computes the model for `[n, items]`."""
        return self.out(self.items(ids))


def main() -> None:
    """Measures every model."""
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    print(f"{'':12} {'alone':>12} {'step':>10} {'layer':>10} {'op':>10} {'op sampled':>10}")

    def sgd(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.01, 0.9)

    mlp = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    x, y = torch.randn(256, 784), below(10, 256)
    measure("mlp", 10, mlp, sgd, lambda: F.cross_entropy(mlp(x), y))

    layers: list[nn.Module] = []
    for channels in (3, 64, 64, 64, 64):
        layers += [nn.Conv2d(channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    cnn = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    images, kinds = torch.randn(16, 3, 32, 32), below(10, 16)
    measure("cnn", 3, cnn, sgd, lambda: F.cross_entropy(cnn(images), kinds))

    gpt = Gpt(1000, 256, 2, 4, 128)
    ids, words = below(1000, 8, 128), below(1000, 8 * 128)
    measure("transformer", 3, gpt, torch.optim.AdamW,
            lambda: F.cross_entropy(gpt(ids).view(-1, 1000), words))

    lstm = nn.LSTM(256, 256)
    sequence = torch.randn(64, 32, 256)
    measure("lstm", 3, lstm, sgd, lambda: lstm(sequence)[0].relu().mean())

    recommender = Recommender()
    bags, liked = below(100_000, 512, 64), below(2, 512)
    measure("recsys", 3, recommender, sgd, lambda: F.cross_entropy(recommender(bags), liked))


if __name__ == "__main__":
    main()
