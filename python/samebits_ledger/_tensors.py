"""Tensors as a ledger describes them: shape, type, device and digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from samebits_ledger._digest import NANS, sum64
from samebits_ledger._keep import Keeper

_NAMES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}
_BYTES = (torch.bool, torch.uint8, torch.int8)


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the schema's name of a type, or PyTorch's where the schema has none."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def describe(
    tensor: torch.Tensor, name: str = "", *, sampled: bool = False, keeper: Keeper | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the entry of a dense tensor, or one for each part of a sparse tensor.

    With a keeper the bytes are kept. A tensor without values, on the device `meta`, has no entry. Call it with dispatch disabled:
    reading a tensor takes operations that are none of the program's.
    """
    if tensor.is_meta:
        return
    tensor = tensor.detach()

    def part(of: torch.Tensor, at: str) -> Iterator[dict[str, Any]]:
        return describe(of, f"{name}{at}", sampled=sampled, keeper=keeper)

    if tensor.layout is torch.strided:
        dtype, array = dtype_name(tensor.dtype), elements(tensor)
        entry = {
            "shape": list(tensor.shape),
            "dtype": dtype,
            "device": str(tensor.device),
            "digest": sum64(array, NANS.get(dtype), sampled=sampled),
        }
        if name:
            entry["name"] = name
        if keeper is not None:
            entry["file"] = keeper.keep(array, dtype)
        yield entry
    elif tensor.layout is torch.sparse_coo:
        yield from part(tensor._indices(), ".indices")
        yield from part(tensor._values(), ".values")
    elif tensor.layout in _COMPRESSED:
        for at in _COMPRESSED[tensor.layout]:
            yield from part(getattr(tensor, at)(), f".{at}")
        yield from part(tensor.values(), ".values")
    else:
        yield from part(tensor.to_dense(), "")


def digest(tensor: torch.Tensor, *, sampled: bool = False) -> str:
    """Returns the digest of a dense tensor that needs no gradient."""
    return sum64(elements(tensor), NANS.get(dtype_name(tensor.dtype)), sampled=sampled)


def elements(tensor: torch.Tensor) -> np.ndarray:
    """Returns the elements of a dense tensor on the host, as numbers that NumPy has."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.resolve_neg()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)
    elif tensor.itemsize == 1 and tensor.dtype not in _BYTES:
        tensor = tensor.view(torch.uint8)
    return tensor.cpu().numpy()


def tensors_in(tree: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors in nested lists, tuples and dictionaries, each with a name.

    Numeric NumPy arrays count as tensors: a data loader without PyTorch's `collate` yields them.
    """
    if isinstance(tree, torch.Tensor):
        yield name, tree
    elif isinstance(tree, np.ndarray):
        if tree.dtype.kind in "biufc":
            yield name, torch.from_numpy(np.array(tree))
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            yield from tensors_in(item, f"{name}[{index}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from tensors_in(item, f"{name}.{key}" if name else str(key))


def entries(
    tree: Any, name: str = "", *, sampled: bool = False, keeper: Keeper | None = None
) -> list[dict[str, Any]]:
    """Returns the entries of all tensors in nested lists, tuples and dictionaries."""
    return [
        entry
        for at, tensor in tensors_in(tree, name)
        for entry in describe(tensor, at, sampled=sampled, keeper=keeper)
    ]
