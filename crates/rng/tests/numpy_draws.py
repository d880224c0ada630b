"""Writes numpy_draws.json: what NumPy draws, call after call.

    pip install numpy==2.*
    python numpy_draws.py

Each case is a generator, its seed (a number, or a list for RandomState) and its calls in their order:
the name, the arguments, and the result, floats in hexadecimal.
"""

import json
import pathlib

import numpy as np

WEIGHTS = [0.1, 0.0, 0.25, 0.05, 0.3, 0.2, 0.1, 0.0]
# Some are so improbable that several rounds are needed.
STEEP = [0.5, 0.25, 0.125, 0.0625, 0.0622, 0.0002, 0.0001]

TRIALS = [
    (n, p)
    for n in [0, 1, 2, 10, 59, 61, 1000, 12345, 10**9, 10**15, 2**62]
    for p in [0.0, 1e-300, 1e-17, 1e-9, 0.003, 0.25, 0.49999999999999994, 0.5, 0.51, 0.97, 1 - 2**-53, 1.0]
]


def both():
    for n, size in [(1, 1), (10, 10), (300, 7), (20000, 3)]:
        for replace in [True, False]:
            yield "choice", [n, size, replace]
    for p in [WEIGHTS, STEEP]:
        yield "choice", [len(p), 5, True, p]
        yield "choice", [len(p), 5, False, p]
    yield "choice", [len(STEEP), 7, False, STEEP]
    yield "choice", [5, 0, False]
    for n in [0, 1, 2, 17]:
        yield "permutation", [n]
    for _ in range(5):
        yield "standard_normal", []
        yield "normal", [-3.5, 0.125]
        yield "standard_exponential", []
        yield "exponential", [2.5]
        yield "uniform", [-1.0, 3.0]
    yield "normal", [1.5, 0.0]
    yield "shuffle", [9]


def legacy():
    for high in [1, 2, 1000, 2**31, 2**32, 2**32 + 1, 2**62, 2**63 - 1]:
        for _ in range(3):
            yield "randint", [0, high]
    yield "randint", [-(2**63), 2**63 - 1]
    yield "randint", [-5, 5]
    # Over the end of the 624 words.
    for _ in range(700):
        yield "random_sample", []


def modern():
    # Enough for the ziggurats' edges and tails.
    for _ in range(1500):
        yield "standard_exponential", []
    yield "choice", [10001, 201, False]
    yield "choice", [10001, 200, False]


def binomials():
    # Both ways, both halves, and parameters that come back.
    for n, p in TRIALS:
        yield "binomial", [n, p]
    for _ in range(200):
        yield "binomial", [100, 0.4]
        yield "binomial", [1000, 0.02]


def draw(generator, name, arguments):
    if name == "shuffle":
        items = np.arange(*arguments)
        generator.shuffle(items)
        return items.tolist()
    if name == "choice":
        n, size, replace, p = (arguments + [None])[:4]
        return generator.choice(n, size, replace, p).tolist()
    if name == "binomial":
        return int(generator.binomial(*arguments))
    if name == "randint":
        return int(generator.randint(*arguments, dtype=np.int64))
    found = getattr(generator, name)(*arguments)
    return float(found).hex() if isinstance(found, float) else found.tolist()


def main():
    cases = []
    for kind, make, more, seeds in [
        ("RandomState", np.random.RandomState, legacy, [0, 42, 2**32 - 1, [1, 2, 3, 4], [7] * 700]),
        ("PCG64", np.random.default_rng, modern, [0, 42]),
    ]:
        for seed in seeds:
            generator = make(seed)
            calls = [[name, a, draw(generator, name, a)] for name, a in [*both(), *more(), *binomials()]]
            cases.append({"generator": kind, "seed": seed, "calls": calls})
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(cases).replace('], ["', '],\n["') + "\n")


main()
