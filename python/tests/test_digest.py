"""The digest against the test vectors of the Rust library, and against its definition."""

import json
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from samebits_ledger import _digest
from samebits_ledger._digest import NANS, sum64
from samebits_ledger._tensors import describe, digest

VECTORS = Path(__file__).parents[2] / "crates/ledger/tests/digest_vectors.json"
WORD = (1 << 64) - 1


def sample(words):
    """The indices of the words in a sampled digest."""
    if words <= 8192:
        return range(words)
    count = words // 512
    starts = [8 * (i * count + ((i * 0x9E3779B9 % 2**32) * count >> 32)) for i in range(63)]
    return [i for start in (*starts, words - 8) for i in range(start, start + 8)]


def by_definition(data, nan=None, size=1, sampled=False):
    """The digest, a word at a time, in Python's integers."""
    padded = data + bytes(-len(data) % 8)
    words = len(padded) // 8
    total = 0
    for i in sample(words) if sampled else range(words):
        word = bytearray(padded[8 * i : 8 * i + 8])
        for at in range(0, 8, size):
            bits = int.from_bytes(word[at : at + size], "little")
            if nan and bits & nan.magnitude > nan.infinity:
                word[at : at + size] = nan.canonical.to_bytes(size, "little")
        v = int.from_bytes(word, "little") ^ (0x9E3779B97F4A7C15 + i * 0xD1B54A32D192ED03) & WORD
        total += (v & 0xFFFFFFFF) * (v >> 32) + (v << 32 | v >> 32) & WORD
    x = total & WORD ^ len(data) * 0xD1B54A32D192ED03 & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return f"{x ^ x >> 31:016x}"


class Sum64(unittest.TestCase):
    """NumPy's form of the digest."""

    def test_vectors(self):
        vectors = json.loads(VECTORS.read_text())
        self.assertGreater(len(vectors), 8)
        for vector in vectors:
            with self.subTest(vector["name"]):
                size = {"f64": 8, "i64": 8, "u8": 1}.get(vector["dtype"], 4)
                array = np.frombuffer(bytes.fromhex(vector["bytes"]), f"u{size}")
                self.assertEqual(sum64(array, NANS.get(vector["dtype"])), vector["digest"])

    def test_a_sample_is_that_of_the_library(self):
        state, data = 1, bytearray()
        for _ in range(8 * 20_000 + 3):
            state = state * 0x5851F42D4C957F2D + 1 & WORD
            data.append(state >> 56)
        array = np.frombuffer(bytes(data), np.uint8)
        self.assertEqual(sum64(array, sampled=True), "106e096b5deccf69")

    def test_pieces_strides_and_samples(self):
        random = np.random.default_rng(0)
        for name, size in (("f16", 2), ("bf16", 2), ("f32", 4), ("f64", 8), ("u8", 1)):
            nan = NANS.get(name)
            for count in (1, 7, 70001, 600001):
                data = random.integers(0, 256, count * size, np.uint8).tobytes()
                array = np.frombuffer(data, f"u{size}")
                apart = np.repeat(array, 2)[::2]
                for sampled in (False, True) if count < 200000 else (True,):
                    expected = by_definition(data, nan, size, sampled)
                    for most in (0, 1 << 26):
                        with (
                            self.subTest(name=name, count=count, sampled=sampled, most=most),
                            mock.patch.object(_digest, "_MOST_COPIED", most),
                        ):
                            self.assertEqual(sum64(array, nan, sampled=sampled), expected)
                            self.assertEqual(sum64(apart, nan, sampled=sampled), expected)


class Tensors(unittest.TestCase):
    """Tensors of every kind, against the bytes of a plain copy."""

    def test_types_and_layouts(self):
        x = torch.linspace(-3, 3, 24)
        z = torch.complex(x, x.flip(0))
        cases = {
            "f32": (x, x),
            "strided": (x.view(4, 6).t(), x.view(4, 6).t().contiguous()),
            "expanded": (x[:1].expand(5, 3), x[0].repeat(15)),
            "scalar": (x[3], x[3:4]),
            "conjugated": (z.conj(), z.conj().resolve_conj()),
            "negated": (z.conj().imag, -z.imag),
        }
        for name, (tensor, plain) in cases.items():
            with self.subTest(name):
                data = torch.view_as_real(plain) if plain.is_complex() else plain
                self.assertEqual(digest(tensor), by_definition(data.contiguous().numpy().tobytes()))

    def test_names_and_parts(self):
        def described(tensor):
            return [(e["dtype"], e["shape"], e.get("name")) for e in describe(tensor, "x")]

        dense = torch.eye(3)
        self.assertEqual(described(dense.bfloat16()), [("bf16", [3, 3], "x")])
        self.assertEqual(described(dense > 0), [("bool", [3, 3], "x")])
        self.assertEqual(described(dense.to(torch.float8_e5m2)), [("float8_e5m2", [3, 3], "x")])
        self.assertEqual(described(dense.to("meta")), [])
        self.assertEqual(
            described(dense.to_sparse()),
            [("i64", [2, 3], "x.indices"), ("f32", [3], "x.values")],
        )
        self.assertEqual(
            [name for _, _, name in described(dense.to_sparse_csc())],
            ["x.ccol_indices", "x.row_indices", "x.values"],
        )

    def test_payloads_of_nan_do_not_count(self):
        for dtype, bits in ((torch.float16, 0x7E01), (torch.bfloat16, 0x7FC1)):
            payload = torch.tensor([bits, 0x3C00], dtype=torch.int16).view(dtype)
            plain = torch.tensor([float("nan"), payload[1].item()], dtype=dtype)
            self.assertEqual(digest(payload), digest(plain))
            self.assertNotEqual(digest(payload), digest(-plain.nan_to_num()))


if __name__ == "__main__":
    unittest.main()
