"""Tensors as a ledger describes them: shape, type, device and digest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from samebits_ledger._digest import NANS, sum64
from samebits_ledger._keep import Keeper
from samebits_ledger._memory import UnreadableError, elements, elements_of_array, unseen
from samebits_ledger._unwritten import Unwritten

Entry = dict[str, Any]

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
# Types that stand for tensors while a program is traced.
SYMBOLIC = (FakeTensor, FunctionalTensor)

UNWRITTEN = "some of it was never written"

_NO_DISPATCH = torch.Tensor.__torch_dispatch__
_PENDING = "torch.distributed._functional_collectives"


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the schema's name of a type, or PyTorch's if the schema has none."""
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def unread(error: Exception | str, of: Any = None, name: str = "") -> Entry:
    """Returns the entry of an unreadable tensor, with the reason."""
    if isinstance(error, Exception):
        text = str(error).strip().partition("\n")[0]
        if not isinstance(error, UnreadableError):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        error = text
    entry: Entry = {"shape": [], "dtype": "unknown", "device": "unknown", "reason": error}
    if isinstance(of, torch.Tensor):
        for field, value in (
            ("shape", lambda: [int(size) for size in of.shape]),
            ("dtype", lambda: dtype_name(of.dtype)),
            ("device", lambda: str(of.device)),
        ):
            try:
                entry[field] = value()
            except Exception:  # The value stays unknown.
                continue
    if name:
        entry["name"] = name
    return entry


def describe(
    tensor: torch.Tensor | np.ndarray,
    name: str = "",
    *,
    sampled: bool = False,
    keeper: Keeper | None = None,
    unwritten: Unwritten | None = None,
) -> list[Entry]:
    """Returns the entry of a dense tensor, or one for each part of another.

    With a keeper the bytes are kept. A tensor that has no values, on the device `meta` or in a
    traced program, has no entry. One that cannot be read has an entry with the reason and without a
    digest. Raises nothing. Call it `unseen`.
    """
    try:
        return list(_described(tensor, name, sampled, keeper, unwritten))
    except Exception as error:
        return [unread(error, tensor, name)]


def _described(
    tensor: torch.Tensor | np.ndarray,
    name: str,
    sampled: bool,
    keeper: Keeper | None,
    unwritten: Unwritten | None,
) -> Iterator[Entry]:
    if isinstance(tensor, np.ndarray):
        dtype, array = elements_of_array(tensor)
        yield _entry(tensor.shape, dtype, "cpu", array, name, sampled, keeper)
        return
    if tensor.is_meta or isinstance(tensor, SYMBOLIC):
        return
    parts = _parts(tensor)
    if parts is None:
        if unwritten is not None and unwritten.holds(tensor):
            raise UnreadableError(UNWRITTEN)
        dtype = dtype_name(tensor.dtype)
        yield _entry(
            tensor.shape, dtype, str(tensor.device), elements(tensor), name, sampled, keeper
        )
        return
    for at, part in parts:
        yield from describe(
            part, f"{name}{at}", sampled=sampled, keeper=keeper, unwritten=unwritten
        )


def _entry(
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    array: np.ndarray,
    name: str,
    sampled: bool,
    keeper: Keeper | None,
) -> Entry:
    entry = {
        "shape": list(shape),
        "dtype": dtype,
        "device": device,
        "digest": sum64(array, NANS.get(dtype), sampled=sampled),
    }
    if name:
        entry["name"] = name
    if keeper is not None:
        entry["file"] = keeper.keep(array, dtype)
    return entry


def _parts(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]] | None:
    """Returns the parts of a tensor, or nothing if it is dense."""
    pending = sys.modules.get(_PENDING)
    if pending is not None and isinstance(tensor, pending.AsyncCollectiveTensor):
        raise UnreadableError("the collective may not have finished")
    if is_composed(type(tensor)) and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        parts = [(f".{at}", getattr(tensor, at)) for at in names]
        return [part for part in parts if isinstance(part[1], torch.Tensor)]
    if tensor.is_nested:
        sizes = ("sizes", tensor._nested_tensor_size())
        strides = ("strides", tensor._nested_tensor_strides())
        return [(f".{at}", part) for at, part in (sizes, strides, ("values", tensor.values()))]
    if tensor.layout is torch.strided:
        return None
    if tensor.layout is torch.sparse_coo:
        return [(".indices", tensor._indices()), (".values", tensor._values())]
    if tensor.layout in _COMPRESSED:
        names = (*_COMPRESSED[tensor.layout], "values")
        return [(f".{at}", getattr(tensor, at)()) for at in names]
    return [("", tensor.to_dense())]


def is_composed(kind: type) -> bool:
    """Returns whether tensors of a type decompose operations themselves."""
    dispatch = kind.__torch_dispatch__
    return dispatch is not _NO_DISPATCH and dispatch is not torch._C._disabled_torch_dispatch_impl


def digest(tensor: torch.Tensor, *, sampled: bool = False) -> str:
    """Returns the digest of a dense tensor.

    Raises:
        UnreadableError: the tensor has no elements that can be read.
    """
    with unseen():
        return sum64(elements(tensor), NANS.get(dtype_name(tensor.dtype)), sampled=sampled)


def tensors_in(tree: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor | np.ndarray]]:
    """Yields the tensors in nested lists, tuples and dictionaries, each with a name.

    Numeric NumPy arrays count as tensors: a data loader without PyTorch's `collate` yields them.
    """
    if isinstance(tree, torch.Tensor):
        yield name, tree
    elif isinstance(tree, np.ndarray):
        if tree.dtype.kind in "biufc":
            yield name, tree
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            yield from tensors_in(item, f"{name}[{index}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from tensors_in(item, f"{name}.{key}" if name else str(key))


def entries(
    tree: Any,
    name: str = "",
    *,
    sampled: bool = False,
    keeper: Keeper | None = None,
    unwritten: Unwritten | None = None,
) -> list[Entry]:
    """Returns the entries of all tensors in nested lists, tuples and dictionaries.

    Raises nothing. Call it `unseen`.
    """
    found: list[Entry] = []
    try:
        for at, tensor in tensors_in(tree, name):
            found += describe(tensor, at, sampled=sampled, keeper=keeper, unwritten=unwritten)
    except Exception as error:
        found.append(unread(error, name=name))
    return found
