"""Writes state_dicts.safetensors: PyTorch models, inputs, and the outputs to expect.

    pip install torch==2.11.* numpy safetensors
    python state_dicts.py

For each MODEL there are `MODEL/state/NAME`, its state_dict; `MODEL/input/0`, `MODEL/input/1`, ..;
and `MODEL/output/0`, ..: what the model, in evaluation mode, computes of them in float64.

Also writes tied.safetensors, a model with a shared weight as `save_model` writes it.
"""

import copy
import pathlib

import torch
from safetensors.torch import save_file, save_model
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 3)

    def forward(self, ids):
        y, (h, c) = self.lstm(self.embed(ids))
        return self.out(y), h, c


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, num_layers=2)
        self.rnn = nn.RNN(5, 4, nonlinearity="relu")
        self.projected = nn.LSTM(4, 6, proj_size=3)

    def forward(self, x):
        x, _ = self.gru(x)
        x, _ = self.rnn(x)
        x, _ = self.projected(x)
        return (x,)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.alike = nn.MultiheadAttention(8, 2, batch_first=True)
        self.unlike = nn.MultiheadAttention(8, 4, kdim=6, vdim=5, batch_first=True)

    def forward(self, query, key, value):
        y, _ = self.alike(query, query, query)
        return self.unlike(y, key, value)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LayerNorm([4, 6])
        self.group = nn.GroupNorm(2, 4)
        self.instance = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        self.rms = nn.RMSNorm(6)
        self.batch = nn.BatchNorm1d(4, affine=False)

    def forward(self, x):
        return (self.batch(self.rms(self.instance(self.group(self.layer(x))))),)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(12, 4)
        self.towers = nn.ModuleList([nn.Linear(4, 5), nn.Linear(4, 6)])
        self.match = nn.Bilinear(5, 6, 3)

    def forward(self, history):
        x = self.bag(history)
        return (self.match(self.towers[0](x), self.towers[1](x)),)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5)
        self.head.weight = self.table.weight


def models():
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    yield "perceptron", nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), [randn(4, 6)]
    yield "cnn", nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.ConvTranspose2d(6, 2, 2, stride=2),
        nn.Flatten(), nn.Linear(32, 3),
    ), [randn(3, 2, 8, 8)]
    yield "norms", Norms(), [randn(3, 4, 6)]
    yield "tagger", Tagger(), [torch.tensor([[3, 1, 4, 0], [5, 9, 2, 6]])]
    yield "recurrent", Recurrent(), [randn(5, 2, 4)]
    yield "attention", Attention(), [randn(2, 3, 8), randn(2, 5, 6), randn(2, 5, 5)]
    yield "encoder", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [randn(2, 5, 8)]
    yield "recommender", Recommender(), [torch.tensor([[3, 1, 4], [1, 5, 9]])]


def randn(*shape):
    return torch.randn(shape)


def outputs(model, inputs):
    found = model(*inputs)
    return found if isinstance(found, tuple) else (found,)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    # The fused form of evaluation computes in another order.
    torch.backends.mha.set_fastpath_enabled(False)
    tensors = {}
    for name, model, inputs in models():
        # What a layer starts with (0 and 1, often) would hide that a name is mistaken.
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for _ in range(3):
            outputs(model.train(), inputs)
        model.eval()
        for key, tensor in model.state_dict().items():
            tensors[f"{name}/state/{key}"] = tensor.contiguous()
        for i, tensor in enumerate(inputs):
            tensors[f"{name}/input/{i}"] = tensor
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        for i, tensor in enumerate(outputs(copy.deepcopy(model).double(), wide)):
            tensors[f"{name}/output/{i}"] = tensor.contiguous()
    folder = pathlib.Path(__file__).parent
    save_file(tensors, folder / "state_dicts.safetensors")
    save_model(Tied(), str(folder / "tied.safetensors"))


main()
