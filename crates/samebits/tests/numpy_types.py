"""Writes numpy_types.npz: an array of every type that NumPy has, in each byte order and memory order.

    pip install numpy==2.*
    python numpy_types.py

The name of an array is its type, its byte order and its memory order. The six values of each type are
those of `expected` in `numpy_types.rs`.
"""

import pathlib

import numpy as np

FLOATS = [-0.0, 1.5, float("inf"), -float("inf")]


def values(dtype):
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        # What does not fit into 64 bits with a sign is an array of its own.
        most = min(info.max, 2**63 - 1)
        return [info.min, info.min + 1, 0, 1, 100, most]
    if dtype.kind == "b":
        return [True, False, False, True, True, False]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        return [*FLOATS, info.smallest_subnormal, info.max]
    return [0, 1, 2, 3, 4, 5]


def main():
    arrays = {}
    for code in ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]:
        for order in "<>":
            dtype = np.dtype(order + code)
            for memory in "CF":
                name = f"{code}{'le' if order == '<' else 'be'}{memory}"
                arrays[name] = np.array(values(dtype), dtype).reshape(2, 3, order="C").copy(memory)
            arrays[f"{code}{'le' if order == '<' else 'be'}0"] = np.array(values(dtype)[3], dtype)
    arrays["complex"] = np.array([1 + 2j], "<c8")
    arrays["wide"] = np.array([1.5], np.longdouble)
    arrays["text"] = np.array(["a"])
    arrays["time"] = np.array(["2026-01-01"], "<M8[s]")
    arrays["record"] = np.array([(1, 2.5)], [("a [(", "<i2"), ("b", "<f4", (1,))])
    arrays["large"] = np.array([0, 2**63], "<u8")
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **arrays)


main()
