"""The Python programs of the README and of the book run."""

import os
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import samebits_ledger

ROOT = Path(__file__).parents[2]


def programs(path):
    """Returns the Python programs of a Markdown file, each in its file's lines so that errors name them."""
    found, begin = [], None
    lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        if begin is None and line == "```python":
            begin = number + 1
        elif begin is not None and line == "```":
            found.append(compile("\n" * begin + "\n".join(lines[begin:number]), path, "exec"))
            begin = None
    return found


def batches(count):
    """Returns inputs and classes of a classifier of 4 features and 3 classes."""
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(5, 4, generator=generator)
    return [(draw(), torch.arange(5) % 3) for _ in range(count)]


def train(model, loader):
    """Computes the gradients of every batch."""
    for x, y in loader:
        functional.cross_entropy(model(x), y).backward()


class Documents(unittest.TestCase):
    def test_recorded_trainings(self):
        for path in ["README.md", "python/README.md", "docs/book/ledger-pytorch.md", "docs/book/two-runs-differ.md"]:
            with self.subTest(path), tempfile.TemporaryDirectory() as folder:
                found = programs(path)
                self.assertTrue(found)
                for program in found:
                    model = nn.Linear(4, 3)
                    names = {
                        "samebits_ledger": samebits_ledger,
                        "model": model,
                        "loader": batches(3),
                        "criterion": functional.cross_entropy,
                        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
                        "train": train,
                    }
                    here = os.getcwd()
                    os.chdir(folder)
                    try:
                        exec(program, names)
                    finally:
                        os.chdir(here)
                    operations = Path(folder, "a.jsonl").read_text(encoding="utf-8")
                    self.assertIn("aten.", operations)

    def test_models(self):
        """Each model of the page for PyTorch's users takes a step that moves every parameter."""
        ints = lambda high, *shape: torch.randint(high, shape, generator=torch.Generator().manual_seed(0))
        numbers = lambda *shape: torch.randn(*shape, generator=torch.Generator().manual_seed(0))
        lengths = lambda count, length: torch.full((count,), length)
        # The name of the class, its arguments, and the arguments of a step.
        models = [
            ("Mlp", (), (numbers(4, 784), ints(10, 4))),
            ("model", (), (numbers(4, 3, 8, 8), ints(10, 4))),
            ("Tagger", (20, 5), (ints(20, 2, 6), ints(5, 2, 6))),
            ("Block", (8, 2), (numbers(2, 5, 8), numbers(2, 5, 8))),
            ("Recommender", (30,), (ints(30, 4, 7), ints(30, 4))),
            ("Speech", (), (numbers(2, 9, 80), 1 + ints(28, 2, 3), lengths(2, 9), lengths(2, 3))),
        ]
        found = programs("docs/book/from-pytorch.md")
        self.assertEqual(len(found), len(models))
        for program, (name, sizes, arguments) in zip(found, models, strict=True):
            with self.subTest(name):
                torch.manual_seed(0)
                names = {"nn": nn, "F": functional, "torch": torch}
                exec(program, names)
                model = names[name] if name == "model" else names[name](*sizes)
                before = [parameter.clone() for parameter in model.parameters()]
                names["step"](model, torch.optim.AdamW(model.parameters(), 1e-3), *arguments)
                moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
                self.assertTrue(all(moved), moved)


if __name__ == "__main__":
    unittest.main()
