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


def turns(features, base, offset):
    powers = base ** (torch.arange(0, features, 2) / features)
    return (offset + torch.arange(3)).unsqueeze(-1) / powers


def turned(x, angles):
    """Rotates neighbours, as products of complex numbers."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def half_turned(x, angles):
    """Rotates features that are half the width apart, as `transformers` does."""
    both = torch.cat([angles, angles], -1)
    a, b = x.chunk(2, -1)
    return x * both.cos() + torch.cat([-b, a], -1) * both.sin()


def functions():
    torch.manual_seed(1)
    a, b, c = torch.randn(3, 3, 4)
    u, v, w = torch.randn(5), torch.randn(4), torch.randn(5)
    cube, other = torch.randn(2, 3, 4), torch.randn(4, 3, 2)
    special = torch.tensor([x for x in SPECIAL if x != -0.5] + [-2.5, -0.0, 1.5, -1.5, 0.49999999999999994, 4503599627370497.5])
    share = torch.tensor([0.0, 0.1, 0.5, 0.75, 1.0])
    holes = torch.where(torch.arange(12).reshape(3, 4) % 5 == 2, math.nan, a)
    steps, rows = torch.tensor([-1.0, 0.0, 0.0, 2.0, 2.5]), torch.tensor([[-2.0, 0.0, 2.0], [2.5, 3.0, math.nan]])
    image = torch.randn(2, 4, 5, 6)
    places = torch.tensor([[3, 0], [1, 1], [2, 3]])
    whole = torch.tensor([[5, -3, 0], [7, 0, 2]])
    allowed = torch.tensor([[1.0, 0.0, 1.0], [0, 0, 0], [0, 2, 0]])
    cases = [
        ("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), [a, b, c]),
        ("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=-2.0), [a, b, c]),
        ("block_diag", torch.block_diag, [a, u, b]),
        ("bucketize", torch.bucketize, [rows, steps]),
        ("bucketize right", lambda x, y: torch.bucketize(x, y, right=True), [rows, steps]),
        ("cartesian_prod", torch.cartesian_prod, [u, v]),
        ("cdist", lambda a, b: torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"), [a, b]),
        ("cdist 1", lambda a, b: torch.cdist(a, b, p=1.0), [cube, a]),
        ("ceil", torch.ceil, [special]),
        ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), [image]),
        ("count_nonzero", lambda x: torch.count_nonzero(x, dim=1), [whole]),
        ("diag", torch.diag, [a]),
        ("diag 1", lambda x: torch.diag(x, 1), [v]),
        ("diag_embed", torch.diag_embed, [a]),
        ("diag_embed -2", lambda x: torch.diag_embed(x, -2, 0, 2), [a]),
        ("diff", torch.diff, [a]),
        ("diff 2", lambda x: torch.diff(x, n=2, dim=0), [a]),
        ("dot", torch.dot, [u, w]),
        ("dstack", lambda *x: torch.dstack(x), [a, b]),
        ("floor", torch.floor, [special]),
        ("fold", lambda x: F.fold(x, (5, 6), (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), [torch.randn(2, 12, 6)]),
        ("frac", torch.frac, [special[torch.isfinite(special)]]),
        ("hstack", lambda *x: torch.hstack(x), [a, b]),
        ("hstack vectors", lambda *x: torch.hstack(x), [u, v]),
        ("isclose", torch.isclose, [special, special.flip(0)]),
        ("isclose nan", lambda a, b: torch.isclose(a, b, rtol=0.3, atol=0.1, equal_nan=True), [special, special.flip(0)]),
        ("isfinite", torch.isfinite, [special]),
        ("isin", torch.isin, [whole, torch.tensor([0, 7, 9])]),
        ("isinf", torch.isinf, [special]),
        ("isnan", torch.isnan, [special]),
        ("kron", torch.kron, [a, b]),
        ("kron ranks", torch.kron, [cube, v]),
        ("lerp", lambda a, b: torch.lerp(a, b, 0.3), [a, b]),
        ("lerp tensor", torch.lerp, [a, b, c]),
        ("logaddexp", torch.logaddexp, [a, b]),
        ("logaddexp special", torch.logaddexp, [special, special.roll(3)]),
        ("logical_and", torch.logical_and, [special, special.roll(9)]),
        ("logical_not", torch.logical_not, [special]),
        ("logical_or", torch.logical_or, [special, special.roll(9)]),
        ("logical_xor", torch.logical_xor, [special, special.roll(9)]),
        ("logical_xor mixed", torch.logical_xor, [whole, torch.tensor([0.0, math.nan, -0.0])]),
        ("logit", torch.logit, [share[1:4]]),
        ("logit eps", lambda x: torch.logit(x, eps=0.2), [share]),
        ("mm", torch.mm, [a, b.T.contiguous()]),
        ("movedim", lambda x: torch.movedim(x, (0, 2), (-1, 0)), [cube]),
        ("mv", torch.mv, [a, v]),
        ("nan_to_num", torch.nan_to_num, [special]),
        ("nan_to_num given", lambda x: torch.nan_to_num(x, 3.0, 4.0, -5.0), [special]),
        ("nanmean", lambda x: torch.nanmean(x, dim=0, keepdim=True), [holes]),
        ("nansum", lambda x: torch.nansum(x, dim=1), [holes]),
        ("outer", torch.outer, [u, v]),
        ("quantile", lambda x: torch.quantile(x, 0.3), [a]),
        ("quantile along", lambda x: torch.quantile(x, 0.85, dim=1, keepdim=True), [cube]),
        ("quantile nan", lambda x: torch.quantile(x, 0.5, dim=0), [holes]),
        ("rot90", lambda x: torch.rot90(x, 1, (0, 1)), [a]),
        ("rot90 2", lambda x: torch.rot90(x, 2, (0, 2)), [cube]),
        ("rot90 -1", lambda x: torch.rot90(x, -1, (2, 1)), [cube]),
        ("round", torch.round, [special]),
        ("rrelu", F.rrelu, [special]),
        ("rrelu training", lambda x: F.rrelu(x, 0.3, 0.3, training=True), [a]),
        ("corrcoef", torch.corrcoef, [a]),
        ("corrcoef vector", torch.corrcoef, [v]),
        ("cov", torch.cov, [a]),
        ("cov vector", lambda x: torch.cov(x, correction=2), [v]),
        ("cov aweights", lambda x, w: torch.cov(x, aweights=w), [a, share[: a.shape[1]]]),
        ("cov fweights", lambda x, w: torch.cov(x, correction=0, fweights=w), [a, torch.arange(a.shape[1])]),
        ("cov weights", lambda x, n, w: torch.cov(x, fweights=n, aweights=w), [a, torch.arange(a.shape[1]), share[: a.shape[1]]]),
        ("local_response_norm", lambda x: F.local_response_norm(x, 3), [cube]),
        ("local_response_norm even", lambda x: F.local_response_norm(x, 2, 0.3, 1.5, 0.7), [cube]),
        ("rms_norm", lambda x, w: F.rms_norm(x, (4,), w), [cube, v]),
        ("rms_norm 2", lambda x: F.rms_norm(x, (3, 4), eps=0.1), [cube]),
        ("rotary_embedding", lambda x: half_turned(x, turns(4, 1e4, 6)), [cube]),
        ("rotary_embedding interleaved", lambda x: turned(x, turns(4, 500.0, 6)), [cube]),
        ("rotary_embedding part", lambda x: torch.cat([half_turned(x[..., :2], turns(2, 1e4, 6)), x[..., 2:]], -1), [cube]),
        ("scaled_dot_product_attention", F.scaled_dot_product_attention, [cube, cube + 1, cube - 1]),
        ("scaled_dot_product_attention causal", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3), [a, b]),
        ("scaled_dot_product_attention mask", lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m > 0), [a, b, allowed]),
        ("scaled_dot_product_attention sum", lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m), [a, b, allowed]),
        ("searchsorted", torch.searchsorted, [steps, rows]),
        ("searchsorted rows", lambda s, x: torch.searchsorted(s, x, right=True), [rows.sort(1)[0], torch.randn(2, 4)]),
        ("t", torch.t, [a]),
        ("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), [a, places]),
        ("take_along_dim wide", lambda x, i: torch.take_along_dim(x, i, 2), [cube, places[:, :1].reshape(1, 3, 1)]),
        ("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [1, 0])), [cube, other]),
        ("tensordot 0", lambda a, b: torch.tensordot(a, b, dims=0), [u, v]),
        ("tile", lambda x: torch.tile(x, (2, 3)), [cube]),
        ("trace", torch.trace, [a]),
        ("trunc", torch.trunc, [special]),
        ("unbind", lambda x: torch.unbind(x, 1)[2], [cube]),
        ("unfold", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), [image]),
        ("vstack", lambda *x: torch.vstack(x), [v, a]),
        ("windows", lambda x: x.unfold(1, 3, 2), [image]),
    ]
    for name, function, inputs in cases:
        arguments = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        y = function(*arguments)
        if y.requires_grad:
            y.backward(torch.linspace(-1, 2, y.numel()).reshape(y.shape))
        yield {
            "name": name,
            "shapes": [list(x.shape) for x in inputs],
            "integers": [not x.is_floating_point() for x in inputs],
            "inputs": [numbers(x.double()) for x in inputs],
            "shape": list(y.shape),
            "y": numbers(y.double()),
            "grads": [None if x.grad is None else numbers(x.grad) for x in arguments],
        }


def adaptive():
    torch.manual_seed(2)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True)
    x = torch.randn(6, 8, requires_grad=True)
    target = torch.tensor([0, 11, 2, 7, 3, 6])
    output, loss = layer(x, target)
    loss.backward()
    return {
        "state": {name: {"shape": list(p.shape), "values": numbers(p)} for name, p in layer.named_parameters()},
        "grads": {name: numbers(p.grad) for name, p in layer.named_parameters()},
        "x": numbers(x),
        "target": target.tolist(),
        "output": numbers(output),
        "loss": loss.item(),
        "grad": numbers(x.grad),
        "log_prob": numbers(layer.log_prob(x)),
        "predict": layer.predict(x).tolist(),
    }


def layers():
    torch.manual_seed(3)
    x, memory, h, c = torch.randn(3, 2, 4), torch.randn(5, 2, 4), torch.randn(2, 3), torch.randn(2, 3)
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    step = x[0]
    small = {"dim_feedforward": 6, "dropout": 0.0}
    cases = [
        ("RNNCell", nn.RNNCell(4, 3), lambda layer: layer(step, h)),
        ("RNNCell relu", nn.RNNCell(4, 3, nonlinearity="relu", bias=False), lambda layer: layer(step)),
        ("GRUCell", nn.GRUCell(4, 3), lambda layer: layer(step, h)),
        ("LSTMCell", nn.LSTMCell(4, 3), lambda layer: torch.cat(layer(step, (h, c)))),
        ("LSTMCell alone", nn.LSTMCell(4, 3), lambda layer: torch.cat(layer(step[0]))),
        ("TransformerEncoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, **small), 2, nn.LayerNorm(4)), lambda layer: layer(x, mask=causal)),
        ("TransformerDecoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, activation="gelu", **small), 2), lambda layer: layer(x, memory, tgt_mask=causal)),
        ("TransformerDecoder first", nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, norm_first=True, **small), 1, nn.LayerNorm(4)), lambda layer: layer(x, memory)),
    ]
    for name, layer, run in cases:
        for p in layer.parameters():
            # The layers of a stack are copies of one.
            torch.nn.init.normal_(p, std=0.5)
        y = run(layer)
        y.backward(torch.linspace(-1, 2, y.numel()).reshape(y.shape))
        yield {
            "name": name,
            "state": {name: {"shape": list(p.shape), "values": numbers(p)} for name, p in layer.named_parameters()},
            "grads": {name: numbers(p.grad) for name, p in layer.named_parameters()},
            "inputs": {"x": numbers(x), "memory": numbers(memory), "h": numbers(h), "c": numbers(c)},
            "y": numbers(y),
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
        ("Adadelta", {}),
        ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1}),
        ("Adadelta", {"maximize": True}),
        ("Adamax", {}),
        ("Adamax", {"lr": 0.1, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}),
        ("Adamax", {"lr": 0.1, "maximize": True}),
        ("RAdam", {}),
        ("RAdam", {"lr": 0.1, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}),
        ("RAdam", {"lr": 0.1, "betas": [0.8, 0.9], "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
        ("RAdam", {"lr": 0.1, "betas": [0.8, 0.999]}),
    ]
    for name, options in cases:
        x = start.clone().requires_grad_()
        optimizer = getattr(torch.optim, name)([x], **options)
        values = []
        # RAdam adapts from step 6 on at the earliest.
        for gradient in gradients * (2 if name == "RAdam" else 1):
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
    "functions": list(functions()),
    "adaptive": adaptive(),
    "layers": list(layers()),
    "schedules": list(schedules()),
    "optimizers": list(optimizers()),
}
json.dump(figures, sys.stdout, allow_nan=False, separators=(",", ":"))
