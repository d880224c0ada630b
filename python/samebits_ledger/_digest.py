"""The digest `sum64` of a ledger, in NumPy: the same value that the Rust library computes.

A tensor's elements in row-major order are one string of bytes, read as little-endian 64-bit words.
Each word is mixed with its index, and the mixed words are summed modulo 2^64. A sum has no order,
so the digest depends on no size of chunks and no number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_K0 = 0x9E3779B97F4A7C15
_K1 = 0xD1B54A32D192ED03
_WORD = (1 << 64) - 1

# Words digested at once: the temporaries stay in the second-level cache.
_CHUNK = 1 << 14
# A strided array up to this size is copied whole; a larger one, piece by piece.
_MOST_COPIED = 1 << 26
# Arrays of up to this many words have every word in a sampled digest.
_SAMPLED_WORDS = 8192
# The blocks of a sampled digest of a larger array, and the words of a block.
_BLOCKS = 64
_BLOCK = 8

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class Nan(NamedTuple):
    """The NaNs of a float type: all bit patterns whose magnitude exceeds `infinity`."""

    magnitude: int
    infinity: int
    canonical: int


_F32 = Nan(0x7FFF_FFFF, 0x7F80_0000, 0x7FC0_0000)
_F64 = Nan(0x7FFF_FFFF_FFFF_FFFF, 0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000)

# By the schema's type names.
NANS = {
    "f16": Nan(0x7FFF, 0x7C00, 0x7E00),
    "bf16": Nan(0x7FFF, 0x7F80, 0x7FC0),
    "f32": _F32,
    "f64": _F64,
    "c64": _F32,
    "c128": _F64,
}


def sum64(array: np.ndarray, nan: Nan | None = None, *, sampled: bool = False) -> str:
    """Returns the digest of an array as 16 hex digits.

    Memory is bounded: at most 64 MiB for a strided array, and far less for a contiguous one.

    Args:
        array: the elements.
        nan: the float type of the bits; each NaN then counts as the canonical one.
        sampled: digests 64 blocks of 64 bytes of an array of more than 64 KiB.
    """
    total = 0
    words = -(-array.nbytes // 8)
    if sampled and words > _SAMPLED_WORDS:
        sample = _sample(words)
        total = _terms(_canonical(sample.of(array), array.itemsize, nan), sample.keys, 0)
    else:
        index = 0
        for piece in _pieces(array):
            total += _terms(_canonical(piece, array.itemsize, nan), _KEYS, index)
            index += len(piece)
    return f"{_mix((total & _WORD) ^ (array.nbytes * _K1 & _WORD)):016x}"


def _keys(indices: np.ndarray) -> np.ndarray:
    """Returns the keys that the words at these indices are mixed with."""
    return indices.astype(np.uint64) * np.uint64(_K1) + np.uint64(_K0)


_KEYS = _keys(np.arange(_CHUNK))


class _Sample(NamedTuple):
    """Ranges of an array's words, and their keys."""

    blocks: list[tuple[int, int]]
    keys: np.ndarray

    def of(self, array: np.ndarray) -> np.ndarray:
        """Returns the words, one block after the other."""
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        each = 8 // array.itemsize
        return _words(np.concatenate([flat[i * each : j * each] for i, j in self.blocks]))


@functools.lru_cache(maxsize=64)
def _sample(words: int) -> _Sample:
    """Returns the blocks of `words` words: one in each 64th, including the first and last words."""
    count = words // _BLOCKS // _BLOCK
    places = [(i * (_K0 >> 32) & 0xFFFFFFFF) * count >> 32 for i in range(_BLOCKS)]
    starts = [(i * count + place) * _BLOCK for i, place in enumerate(places)]
    starts[-1] = words - _BLOCK
    blocks = [(start, start + _BLOCK) for start in starts]
    return _Sample(blocks, _keys(np.concatenate([np.arange(i, j) for i, j in blocks])))


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the words in order, in chunks."""
    if array.flags.c_contiguous or array.nbytes <= _MOST_COPIED:
        flat = np.ascontiguousarray(array).reshape(-1)
    else:
        flat = array.flat
    elements = _CHUNK * 8 // array.itemsize
    for start in range(0, array.size, elements):
        yield _words(flat[start : start + elements])


def _words(piece: np.ndarray) -> np.ndarray:
    surplus = piece.nbytes % 8
    if surplus == 0:
        return piece.view(np.uint64)
    padded = np.zeros(piece.nbytes + 8 - surplus, np.uint8)
    padded[: piece.nbytes] = piece.view(np.uint8)
    return padded.view(np.uint64)


def _canonical(words: np.ndarray, itemsize: int, nan: Nan | None) -> np.ndarray:
    if nan is None:
        return words
    bits = np.ascontiguousarray(words).view(f"u{itemsize}")
    magnitudes = bits & bits.dtype.type(nan.magnitude)
    if magnitudes.max(initial=0) <= nan.infinity:
        return words
    return np.where(
        magnitudes > bits.dtype.type(nan.infinity), bits.dtype.type(nan.canonical), bits
    ).view(np.uint64)


def _terms(words: np.ndarray, keys: np.ndarray, first: int) -> int:
    """Sums `lo * hi + rotl(v, 32)` over `v = word ^ key`, for words from index `first` on."""
    low = keys[: len(words)] + np.uint64(first * _K1 & _WORD)
    low ^= words
    high = low >> _HALF
    low &= _LOW
    rotated = (int(low.sum()) << 32) + int(high.sum())
    return int(np.dot(low, high)) + rotated


def _mix(x: int) -> int:
    """Applies the finaliser of splitmix64."""
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & _WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & _WORD
    return x ^ x >> 31
