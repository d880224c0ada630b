"""Writes what PyTorch computes, for tests/torch.rs: python generate.py > figures.json

Numbers are float64, written as repr() does; JSON has no NaN and infinities, so they are texts.
"""

import inspect
import json
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)


def number(x):
    return x if math.isfinite(x) else repr(x)


def numbers(tensor):
    return [number(x) for x in tensor.detach().flatten().tolist()]


SPECIAL = [
    -math.inf, -1000.0, -20.0, -3.0, -2.5, -1.0, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 3.0, 6.0, 21.0,
    1000.0, math.inf, math.nan,
]

ACTIVATIONS = [
    ("celu", [1.0]), ("celu", [0.7]), ("hardshrink", [0.5]), ("hardsigmoid", []), ("hardswish", []), ("mish", []),
    ("selu", []), ("softshrink", [0.5]), ("softsign", []), ("tanhshrink", []), ("threshold", [0.5, -7.0]),
]


def activations():
    for name, parameters in ACTIVATIONS:
        x = torch.tensor(SPECIAL, requires_grad=True)
        y = getattr(F, name)(x, *parameters)
        y.backward(torch.ones_like(y))
        yield {"name": name, "parameters": parameters, "y": numbers(y), "grad": numbers(x.grad)}


def along():
    for name in ["glu", "softmin"]:
        x = torch.linspace(-2, 3, 24).reshape(2, 4, 3).requires_grad_()
        y = getattr(F, name)(x, dim=1)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        yield {"name": name, "parameters": [], "y": numbers(y), "grad": numbers(x.grad)}


def losses():
    torch.manual_seed(0)
    a, b, c = torch.randn(3, 4, 5)
    signs = torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0], [-1, 1, 1, -1, 1], [1, 1, -1, 1, 1], [-1, -1, 1, 1, -1]])
    counts = torch.tensor([[0.0, 1, 2, 5, 3], [1, 0, 4, 2, 2], [7, 1, 1, 0, 2], [2, 3, 0, 1, 9]])
    classes = torch.tensor([3, 0, 4, 1])
    lists = torch.tensor([[3, 0, -1, 2, 1], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4], [4, -1, 3, 2, 1]])
    weight = torch.tensor([0.5, 1.0, 2.0, 0.0, 1.5])
    var = c.square() + 0.1
    var[0, 0] = 0
    truth = (signs + 1) / 2
    yes_no = signs[:, 0]
    cases = [
        (nn.MSELoss, {}, [a, b]),
        (nn.L1Loss, {}, [a, b]),
        (nn.SmoothL1Loss, {}, [a, b]),
        (nn.HuberLoss, {}, [a, b]),
        (nn.CrossEntropyLoss, {}, [a, classes]),
        (nn.NLLLoss, {}, [a, classes]),
        (nn.BCELoss, {}, [a.sigmoid(), truth]),
        (nn.BCEWithLogitsLoss, {}, [a, truth]),
        (nn.KLDivLoss, {}, [a, b.sigmoid()]),
        (nn.PoissonNLLLoss, {}, [a, counts]),
        (nn.PoissonNLLLoss, {"full": True}, [a, counts]),
        (nn.PoissonNLLLoss, {"log_input": False}, [a.exp(), counts]),
        (nn.GaussianNLLLoss, {}, [a, b, var]),
        (nn.GaussianNLLLoss, {"full": True, "eps": 0.5}, [a, b, var]),
        (nn.GaussianNLLLoss, {}, [a, b, var[:, 1]]),
        (nn.HingeEmbeddingLoss, {}, [a, signs]),
        (nn.HingeEmbeddingLoss, {"margin": 0.3}, [a, signs]),
        (nn.MarginRankingLoss, {}, [a, b, signs]),
        (nn.MarginRankingLoss, {"margin": 0.3}, [a, b, signs]),
        (nn.CosineEmbeddingLoss, {}, [a, b, yes_no]),
        (nn.CosineEmbeddingLoss, {"margin": 0.1}, [a, b, yes_no]),
        (nn.CosineEmbeddingLoss, {}, [a[0], b[0], yes_no[0]]),
        (nn.TripletMarginLoss, {}, [a, b, c]),
        (nn.TripletMarginLoss, {"margin": 0.5, "p": 1.0, "swap": True}, [a, b, c]),
        (nn.SoftMarginLoss, {}, [a, signs]),
        (nn.MultiMarginLoss, {}, [a, classes]),
        (nn.MultiMarginLoss, {"p": 2, "margin": 0.5}, [a, classes]),
        (nn.MultiMarginLoss, {"weight": weight}, [a, classes]),
        (nn.MultiMarginLoss, {}, [a[0], classes[0]]),
        (nn.MultiLabelMarginLoss, {}, [a, lists]),
        (nn.MultiLabelMarginLoss, {}, [a[0], lists[0]]),
        (nn.MultiLabelSoftMarginLoss, {}, [a, truth]),
        (nn.MultiLabelSoftMarginLoss, {"weight": weight}, [a, truth]),
        (nn.CosineSimilarity, {}, [a, b]),
        (nn.PairwiseDistance, {}, [a, b]),
    ]
    for loss, options, inputs in cases:
        has_reduction = "reduction" in inspect.signature(loss).parameters
        for reduction in ["none", "mean", "sum"] if has_reduction else [None]:
            arguments = [x.clone().requires_grad_() if i == 0 and x.is_floating_point() else x for i, x in enumerate(inputs)]
            given = {**options, "reduction": reduction} if has_reduction else options
            y = loss(**given)(*arguments)
            y.sum().backward()
            yield {
                "name": loss.__name__,
                "options": {k: v if not torch.is_tensor(v) else numbers(v) for k, v in options.items()},
                "reduction": reduction,
                "shapes": [list(x.shape) for x in inputs],
                "integers": [not x.is_floating_point() for x in inputs],
                "inputs": [numbers(x.double()) for x in inputs],
                "y": numbers(y),
                "grad": numbers(arguments[0].grad),
            }


def schedules():
    lr_scheduler = torch.optim.lr_scheduler
    cases = [
        ("StepLR", {"step_size": 4}),
        ("MultiStepLR", {"milestones": [3, 7, 8], "gamma": 0.5}),
        ("ExponentialLR", {"gamma": 0.9}),
        ("LinearLR", {}),
        ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 8}),
        ("ConstantLR", {}),
        ("PolynomialLR", {}),
        ("PolynomialLR", {"total_iters": 9, "power": 2.0}),
        ("CosineAnnealingLR", {"T_max": 10}),
        ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
        ("CosineAnnealingWarmRestarts", {"T_0": 4}),
        ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}),
        ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4}),
        ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"}),
        ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 20}),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 20, "three_phase": True}),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 20, "anneal_strategy": "linear", "pct_start": 0.25}),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 20, "anneal_strategy": "linear", "three_phase": True}),
        ("OneCycleLR", {
            "max_lr": 0.1, "total_steps": 20, "base_momentum": 0.8, "max_momentum": 0.9, "div_factor": 10.0,
            "final_div_factor": 100.0,
        }),
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 20, "cycle_momentum": False}),
    ]
    for name, options in cases:
        for kind in ["SGD", "Adam"] if name in ["OneCycleLR", "CyclicLR"] else ["SGD"]:
            parameters = [torch.zeros(1, requires_grad=True)]
            momentum = {"momentum": 0.5} if kind == "SGD" else {}
            optimizer = getattr(torch.optim, kind)(parameters, lr=0.1, **momentum)
            schedule = getattr(lr_scheduler, name)(optimizer, **options)
            rates, momenta = [], []
            for step in range(20):
                group = optimizer.param_groups[0]
                rates.append(group["lr"])
                momenta.append(group["momentum"] if kind == "SGD" else group["betas"][0])
                optimizer.step()
                if step < 19:
                    schedule.step()
            yield {"name": name, "options": options, "optimizer": kind, "rates": rates, "momenta": momenta}


def optimizers():
    start = torch.tensor([0.5, -1.25, 2.0, 0.0])
    gradients = [[0.3, -2.0, 0.0, 1e-3], [-0.7, 0.5, 1.5, -2.0], [0.0, 0.25, -1.0, 3.0], [4.0, -0.1, 0.2, 0.5], [0.9, 0.9, -0.9, 0.01]]
    cases = [
        ("SGD", {}),
        ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "maximize": True}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("Adam", {}),
        ("Adam", {"lr": 0.1, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}),
        ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
        ("AdamW", {}),
        ("AdamW", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
        ("AdamW", {"lr": 0.1, "maximize": True}),
        ("RMSprop", {}),
        ("RMSprop", {"lr": 0.1, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.9, "centered": True}),
        ("RMSprop", {"lr": 0.1, "centered": True, "maximize": True}),
        ("Adagrad", {}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}),
        ("Adagrad", {"lr": 0.1, "maximize": True}),
    ]
    for name, options in cases:
        x = start.clone().requires_grad_()
        optimizer = getattr(torch.optim, name)([x], **options)
        values = []
        for gradient in gradients:
            x.grad = torch.tensor(gradient)
            optimizer.step()
            values.append(numbers(x))
        yield {"name": name, "options": options, "values": values}


figures = {
    "torch": torch.__version__,
    "special": [number(x) for x in SPECIAL],
    "activations": list(activations()),
    "along": list(along()),
    "losses": list(losses()),
    "schedules": list(schedules()),
    "optimizers": list(optimizers()),
}
json.dump(figures, sys.stdout, allow_nan=False, separators=(",", ":"))
