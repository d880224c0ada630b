#!/usr/bin/env python3
"""Checks the reference figures against PyTorch, and adds cases to them.

    pip install torch safetensors numpy
    python tests/reference/generate.py check tests/reference/torch.safetensors
    python tests/reference/generate.py add tests/reference/torch.safetensors cumsum \
        --params '{"dim": 1}' --inputs '{"input": [3, 4]}' --seed 7
    python tests/reference/generate.py halves tests/reference/torch.safetensors \
        tests/reference/half.safetensors

Inputs are float32, or int64 where an input is given as {"shape": [8], "below": 3} or
{"values": [0, 2]}. Results and gradients are computed in float64 on the CPU. An operator goes by its
name in `torch.nn.functional` or `torch`, and arguments by their names there; `SPECIAL` holds those
that are called otherwise. A new operator also needs a handler in tests/src/conformance.

`halves` writes every case again for bfloat16 and float16: inputs and incoming gradients are rounded
to the type, results and gradients are computed from these in float64 and stored in float32.
"""

import argparse
import json
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file


def index_put(x, p):
    return x["input"].index_put((x["index0"], x["index1"]), x["values"], accumulate=p["accumulate"])


def sparse_mm(x, p):
    places = torch.stack([x["row_indices"], x["col_indices"]])
    matrix = torch.sparse_coo_tensor(places, x["values"], (p["rows"], p["cols"]))
    return torch.sparse.mm(matrix, x["dense"])


def max_pool(function):
    def run(x, p):
        y, indices = function(x["input"], return_indices=True, **p)
        return {"y": y, "indices": indices}

    return run


def fractional(function):
    def run(x, p):
        samples = x["random_samples"]
        return function(x["input"], _random_samples=samples, **p)

    return run


def batch_norm(x, p):
    return F.batch_norm(x["input"], None, None, x["weight"], x["bias"], p["training"], eps=p["eps"])


def recurrent(layer, **options):
    """An `nn` layer whose parameters are inputs under PyTorch's names."""

    def run(x, p):
        module = layer(**p, **options, dtype=torch.float64)
        states = [x["h0"], x["c0"]] if "c0" in x else [x["h0"]]
        weights = {name: x[name] for name, _ in module.named_parameters()}
        arguments = (x["input"], tuple(states) if len(states) > 1 else states[0])
        output, state = torch.func.functional_call(module, weights, arguments)
        state = state if isinstance(state, tuple) else (state,)
        return {"output": output, **dict(zip(["h_n", "c_n"], state))}

    return run


def attention(x, p):
    """With a causal mask after `causal_offset` cached keys; a mask above 0 shows a key if `truth`."""
    p, mask = dict(p), x.get("attn_mask")
    if p.pop("truth", False):
        mask = mask > 0
    offset = p.pop("causal_offset", None)
    if offset is not None:
        mask = torch.ones(x["query"].shape[-2], x["key"].shape[-2], dtype=torch.bool).tril(offset)
    return F.scaled_dot_product_attention(x["query"], x["key"], x["value"], mask, **p)


def rotary(x, p):
    """As `apply_rotary_pos_emb` of transformers' Llama, or of its GPT-J if `interleaved`."""
    half = x["cos"].shape[-1]
    rotated, rest = x["x"].split([2 * half, x["x"].shape[-1] - 2 * half], dim=-1)
    if p["interleaved"]:
        a, b = rotated[..., ::2], rotated[..., 1::2]
        turned = torch.stack([-b, a], dim=-1).flatten(-2)
        cos, sin = (x[name].repeat_interleave(2, dim=-1) for name in ("cos", "sin"))
    else:
        a, b = rotated.chunk(2, dim=-1)
        turned = torch.cat([-b, a], dim=-1)
        cos, sin = (torch.cat([x[name], x[name]], dim=-1) for name in ("cos", "sin"))
    return torch.cat([rotated * cos + turned * sin, rest], dim=-1)


def padded(x, p):
    """Sequences `x0`, `x1`, .. with padding."""
    sequences = [x[f"x{i}"] for i in range(len(x))]
    return torch.nn.utils.rnn.pad_sequence(sequences, **p)


def histc(x, p):
    """In float32: the borders of bins are float32 numbers to PyTorch."""
    return torch.histc(x["input"].float(), **p).double()


def given(p):
    """Parameters without those that are not given."""
    return {name: value for name, value in p.items() if value is not None}


SPECIAL = {
    "index_put": index_put,
    "bincount_weighted": lambda x, p: torch.bincount(x["input"], x["weights"], **p),
    "histc": histc,
    "scaled_dot_product_attention": attention,
    "rotary_embedding": rotary,
    "pad_sequence": padded,
    "unpad_sequence": lambda x, p: dict(
        (f"y{i}", y)
        for i, y in enumerate(
            torch.nn.utils.rnn.unpad_sequence(x["input"], x["lengths"], **p)
        )
    ),
    "sum_all": lambda x, p: x["input"].sum(),
    "sparse_mm": sparse_mm,
    "repeat_interleave": lambda x, p: torch.repeat_interleave(x["input"], x["repeats"], **p),
    "bmm": lambda x, p: torch.bmm(x["input"], x["other"]),
    "batch_norm": batch_norm,
    "interpolate": lambda x, p: F.interpolate(x["input"], **given(p)),
    "lstm": recurrent(torch.nn.LSTM),
    "gru": recurrent(torch.nn.GRU),
    "rnn_tanh": recurrent(torch.nn.RNN, nonlinearity="tanh"),
    "rnn_relu": recurrent(torch.nn.RNN, nonlinearity="relu"),
    **{f"max_pool{d}d": max_pool(getattr(F, f"max_pool{d}d")) for d in (1, 2, 3)},
    **{
        f"fractional_max_pool{d}d": fractional(getattr(F, f"fractional_max_pool{d}d"))
        for d in (2, 3)
    },
}


# Arguments that PyTorch has no gradient for.
CONSTANT = {
    "fractional_max_pool2d": ["random_samples"],
    "fractional_max_pool3d": ["random_samples"],
    "cross_entropy": ["weight"],
    "nll_loss": ["weight"],
}


def call(op, inputs, params):
    """Every result by its name."""
    if op in SPECIAL:
        found = SPECIAL[op](inputs, params)
    else:
        # Methods come last: they take the first argument by its place.
        homes = [home for home in (F, torch) if hasattr(home, op)]
        if not homes:
            sys.exit(f"{op}: neither in torch.nn.functional nor in torch; add it to SPECIAL")
        found = getattr(homes[0], op)(**inputs, **params)
    return found if isinstance(found, dict) else {"y": found}


# Operators that take no halves, or whose results for other inputs do not depend on them.
NO_HALVES = ["sparse_mm", "bincount"]


def compute(op, inputs, params, grad_outputs=None, seed=0):
    """Results in float64, the gradients that flow in, and those of the inputs."""
    constant = CONSTANT.get(op, [])
    variables = {
        name: x.double().requires_grad_(name not in constant) if x.is_floating_point() else x
        for name, x in inputs.items()
    }
    outputs = call(op, variables, params)
    walked = {name: y for name, y in outputs.items() if y.requires_grad}
    if grad_outputs is None:
        draw = torch.Generator().manual_seed(seed + 1)
        grad_outputs = {name: torch.randn(y.shape, generator=draw) for name, y in walked.items()}
    # A case may leave gradients out.
    walked = {name: y for name, y in walked.items() if name in grad_outputs}
    grads = {}
    if walked:
        torch.autograd.backward(
            list(walked.values()), [grad_outputs[name].double() for name in walked]
        )
        grads = {name: x.grad for name, x in variables.items() if x.grad is not None}
    return {name: y.detach() for name, y in outputs.items()}, grad_outputs, grads


def read(path):
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        metadata = file.metadata()
    return tensors, json.loads(metadata["cases"]), metadata


def check(path):
    """Computes every case again. Sums may be added in another order than on the first machine."""
    tensors, cases, _ = read(path)
    failed = 0
    for case in cases:
        of = lambda role: {name: tensors[key] for name, key in case[role].items()}
        try:
            outputs, _, grads = compute(
                case["op"], of("inputs"), case["params"], of("grad_outputs")
            )
        except (RuntimeError, TypeError, ValueError, KeyError) as error:
            failed += 1
            print(f"{case['name']}: {error}")
            continue
        for role, found in (("outputs", outputs), ("grads", grads)):
            for name, expected in of(role).items():
                near = 1e-6 if expected.dtype == torch.float32 else 1e-9
                close = torch.allclose(
                    found[name].double(), expected.double(), rtol=near, atol=near, equal_nan=True
                )
                if not close:
                    failed += 1
                    print(f"{case['name']}: {role} {name} differs")
    print(f"{len(cases)} cases, {failed} differences")
    return failed == 0


def drawn(description, draw):
    """A tensor: normal numbers of a shape, indices below a bound, or given values."""
    if isinstance(description, list):
        return torch.randn(description, generator=draw)
    if "values" in description:
        return torch.tensor(description["values"])
    return torch.randint(0, description["below"], description["shape"], generator=draw)


def add(path, op, params, inputs, seed):
    tensors, cases, metadata = read(path)
    draw = torch.Generator().manual_seed(seed)
    inputs = {name: drawn(description, draw) for name, description in inputs.items()}
    outputs, grad_outputs, grads = compute(op, inputs, params, seed=seed)
    number = 1 + max(int(key[1:]) for key in tensors)

    def store(named):
        nonlocal number
        keys = {}
        for name, tensor in named.items():
            keys[name] = f"t{number}"
            tensors[keys[name]] = tensor.contiguous()
            number += 1
        return keys

    case = {
        "name": f"{op}#{sum(case['op'] == op for case in cases)}",
        "op": op,
        "params": params,
        "inputs": store(inputs),
        "outputs": store(outputs),
        "grad_outputs": store(grad_outputs),
        "grads": store(grads),
    }
    metadata["cases"] = json.dumps(cases + [case])
    save_file(tensors, path, metadata)
    print(f"added {case['name']}: {len(cases) + 1} cases")


def below_one(x, dtype):
    """Rounds to a type. Random numbers that lie below 1 stay there."""
    y = x.to(dtype)
    return torch.where((y >= 1) & (x < 1), 1 - torch.finfo(dtype).eps, y)


def halves(path, to):
    tensors, cases, metadata = read(path)
    found, stored = [], {}

    def store(named, dtype):
        keys = {}
        for name, x in named.items():
            keys[name] = f"t{len(stored)}"
            stored[keys[name]] = x.to(dtype if x.is_floating_point() else x.dtype).clone(
                memory_format=torch.contiguous_format
            )
        return keys

    for case in cases:
        if case["op"] in NO_HALVES:
            continue
        of = lambda role: {name: tensors[key] for name, key in case[role].items()}
        for dtype, label in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
            inputs = {
                name: (below_one(x, dtype) if name == "random_samples" else x.to(dtype))
                if x.is_floating_point()
                else x
                for name, x in of("inputs").items()
            }
            grad_outputs = {name: x.to(dtype) for name, x in of("grad_outputs").items()}
            outputs, _, grads = compute(case["op"], inputs, case["params"], grad_outputs)
            record = {
                "name": f"{case['name']} {label}",
                "op": case["op"],
                "dtype": label,
                "params": case["params"],
                "inputs": store(inputs, dtype),
                "outputs": store({n: outputs[n] for n in case["outputs"]}, torch.float32),
                "grad_outputs": store(grad_outputs, dtype),
                "grads": store({n: grads[n] for n in case["grads"]}, torch.float32),
            }
            found.append(record)
    save_file(stored, to, metadata | {"cases": json.dumps(found)})
    print(f"{len(found)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checks = commands.add_parser("check", help="compute every case again and compare")
    checks.add_argument("file")
    adds = commands.add_parser("add", help="append a case")
    adds.add_argument("file")
    adds.add_argument("op")
    adds.add_argument("--params", type=json.loads, default={})
    adds.add_argument("--inputs", type=json.loads, required=True)
    adds.add_argument("--seed", type=int, default=0)
    half = commands.add_parser("halves", help="write every case in half precision")
    half.add_argument("file")
    half.add_argument("to")
    args = parser.parse_args()
    if args.command == "halves":
        return halves(args.file, args.to)
    if args.command == "check":
        sys.exit(0 if check(args.file) else 1)
    add(args.file, args.op, args.params, args.inputs, args.seed)


if __name__ == "__main__":
    main()
