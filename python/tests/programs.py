"""Small random training programs, and differences to plant in them."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import samebits_ledger

FEATURES = 8
CLASSES = 3
STEPS = range(3)


class Attention(nn.Module):
    """A block of a transformer, over features as a sequence of scalars."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Linear(1, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.embed(x.unsqueeze(2))
        q, k, v = self.qkv(self.norm(x)).chunk(3, 2)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(functional.gelu(x).mean(1))


class Recurrent(nn.Module):
    """A recurrent network over the features."""

    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x.unsqueeze(2))[0][:, -1])


class Bag(nn.Module):
    """Embeddings of the rounded features."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.EmbeddingBag(16, width, mode="sum")
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.embed((x * 2).round().long().clamp(-8, 7) + 8).tanh())


def perceptron(width):
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, CLASSES)
    )


def convolution(width):
    return nn.Sequential(
        nn.Unflatten(1, (1, FEATURES)),
        nn.Conv1d(1, width, 3, padding=1),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * FEATURES, CLASSES),
    )


MODELS = (perceptron, convolution, Attention, Recurrent, Bag)
OPTIMIZERS = (
    lambda p: torch.optim.SGD(p, 0.1),
    lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    lambda p: torch.optim.AdamW(p, 0.01),
    lambda p: torch.optim.Adam(p, 0.01, fused=True),
    lambda p: torch.optim.RMSprop(p, 0.01),
)


class Program:
    """A model, an optimizer and batches, all derived from a number."""

    def __init__(self, case):
        choose = random.Random(case)
        torch.manual_seed(case)
        self.model = choose.choice(MODELS)(choose.choice((4, 8, 16)))
        self.optimizer = choose.choice(OPTIMIZERS)(self.model.parameters())
        size = choose.choice((4, 6))
        self.batches = [
            (torch.randn(size, FEATURES), torch.randint(0, CLASSES, (size,))) for _ in STEPS
        ]
        self.seed = case

    def train(self, path=None, steps=STEPS, **options):
        """Trains, recorded if there is a path."""
        if path is None:
            return self._train(steps, None)
        with samebits_ledger.record(path, first_step=steps[0], **options) as recorder:
            self._train(steps, recorder)

    def _train(self, steps, recorder):
        torch.manual_seed(self.seed)
        for x, y in samebits_ledger.watch([self.batches[step] for step in steps]):
            noisy = x + 0.01 * torch.randn_like(x)
            loss = functional.cross_entropy(self.model(noisy), y)
            if recorder is not None:
                recorder.loss(loss)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def flip_bit(tensor, index):
    """Changes the last bit of one element of a contiguous or strided `f32` tensor on the host."""
    array = tensor.detach().numpy()
    at = np.unravel_index(index % array.size, array.shape)
    array[at] = (array[at].view(np.uint32) ^ np.uint32(1)).view(np.float32)


class FlipOutput(TorchDispatchMode):
    """Changes one bit of the result of an operator's `count`-th call. Enter it outside."""

    def __init__(self, name, count, index):
        super().__init__()
        self.name = name
        self.count = count
        self.index = index

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if str(func) == self.name:
            if self.count == 0:
                with torch._C._DisableTorchDispatch():
                    flip_bit(self._floats(result, args), self.index)
            self.count -= 1
        return result

    @staticmethod
    def _floats(result, args):
        found = [*_flat(result), *_flat(args)]
        return next(t for t in found if t.dtype is torch.float32 and t.numel() > 0)


def _flat(tree):
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
