"""Elements of tensors, read in place.

Reading does not change a tensor and runs no operation on it. `Tensor.numpy()` would forbid that
its storage is resized, `data_ptr()` would copy lazy clones, and operations would be traced.
"""

from __future__ import annotations

import numpy as np
import torch

# Elements are read as unsigned numbers: their bits are enough.
_WIDTHS = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_KINDS = {"b": "bool", "u": "u", "i": "i", "f": "f", "c": "c"}
# Types whose elements share a byte, which the number of elements does not show.
_PACKED = {getattr(torch, name, None) for name in ("quint4x2", "quint2x4")}


class UnreadableError(Exception):
    """A tensor whose elements cannot be read; the text gives the reason."""


class unseen:
    """A context in which the program does not see the recorder's operations.

    Neither modes, nor subclasses, nor autograd, nor `torch.jit.trace`, which notes even sizes.
    """

    def __enter__(self) -> None:
        """Starts to hide operations."""
        self._guards = (
            torch._C.DisableTorchFunction(),
            torch._C._DisableTorchDispatch(),
            torch._C._AutoDispatchBelowAutograd(),
        )
        for guard in self._guards:
            guard.__enter__()
        self._tracing = torch._C._get_tracing_state()
        if self._tracing is not None:
            torch._C._set_tracing_state(None)

    def __exit__(self, *error: object) -> None:
        """Stops hiding operations."""
        if self._tracing is not None:
            torch._C._set_tracing_state(self._tracing)
        for guard in reversed(self._guards):
            guard.__exit__(*error)


class as_usual:
    """A context in which an operation called by a dispatch mode computes what it does without one.

    PyTorch ignores marks of conjugates, negatives and zeros below a mode: operations that make such
    tensors themselves, `linalg.pinv` of complex numbers for one, would give other values.
    """

    _KEYS = tuple(
        getattr(torch._C.DispatchKey, key) for key in ("Conjugate", "Negative", "ZeroTensor")
    )

    def __enter__(self) -> None:
        """Respects the marks."""
        self._guards = [torch._C._SetExcludeDispatchKeyGuard(key, False) for key in self._KEYS]
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *error: object) -> None:
        """Ignores them again."""
        for guard in reversed(self._guards):
            guard.__exit__(*error)


class _Memory:
    """A tensor's memory, as NumPy's array interface describes it. Keeps the tensor alive."""

    def __init__(self, tensor: torch.Tensor, parts: int) -> None:
        address, size = _address(tensor), tensor.itemsize // parts
        shape = list(tensor.shape)
        strides = [tensor.itemsize * stride for stride in tensor.stride()]
        if parts > 1:
            shape, strides = [*shape, parts], [*strides, size]
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "typestr": _WIDTHS[size],
            "shape": tuple(shape),
            "strides": tuple(strides),
        }


def _address(tensor: torch.Tensor) -> int:
    """The address of the first element. All elements lie in the storage."""
    first = tensor.storage_offset()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    last = first + sum((size - 1) * stride for size, stride in sizes)
    if (last + 1) * tensor.itemsize > tensor.untyped_storage().nbytes():
        raise UnreadableError("its storage is smaller than the tensor")
    storage = torch._C._data_address(tensor)
    if storage == 0:
        raise UnreadableError("it has no memory")
    return storage + first * tensor.itemsize


def elements(tensor: torch.Tensor) -> np.ndarray:
    """Returns the bits of the elements of a dense tensor, complex ones as pairs. Call it `unseen`.

    The array may be the tensor's memory: read it at once, and do not write to it.

    Raises:
        UnreadableError: the elements of the tensor cannot be read.
    """
    parts = 2 if tensor.is_complex() else 1
    if tensor.dtype in _PACKED or tensor.itemsize // parts not in _WIDTHS:
        raise UnreadableError(f"elements of {tensor.dtype} are not read")
    if tensor.numel() == 0 or tensor._is_zerotensor():
        shape = (*tensor.shape, parts) if parts > 1 else tuple(tensor.shape)
        return np.broadcast_to(np.zeros((), _WIDTHS[tensor.itemsize // parts]), shape)
    if tensor.device.type != "cpu":
        tensor = _on_host(tensor)
    array = np.asarray(_Memory(tensor, parts))
    signs = [slice(1, 2)] if tensor.is_conj() else []
    signs += [slice(None)] if tensor.is_neg() else []
    if signs:
        if not (tensor.is_complex() or tensor.is_floating_point()):
            raise UnreadableError("negated integers are not read")
        array = array.copy()
        for of in signs:
            part = array[..., of] if parts > 1 else array
            part ^= part.dtype.type(1 << (8 * part.itemsize - 1))
    return array


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise UnreadableError("a CUDA graph is being captured")
    return tensor.cpu()


def elements_of_array(array: np.ndarray) -> tuple[str, np.ndarray]:
    """Returns the schema's name of an array's type, and the bits of its elements.

    Raises:
        UnreadableError: PyTorch has no such type.
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    width = size // 2 if kind == "c" else size
    if kind not in _KINDS or width not in _WIDTHS:
        raise UnreadableError(f"elements of {array.dtype} are not read")
    name = "bool" if kind == "b" else f"{_KINDS[kind]}{8 * size}"
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"u16": "uint16"}.get(name, name), plain.reshape(-1).view(_WIDTHS[width])
