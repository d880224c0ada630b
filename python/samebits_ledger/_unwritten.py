"""Memory that a program has not written: its content is arbitrary."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

# The maximum size of a storage whose elements are tracked individually.
_MOST = 1 << 28
# The number of storages at which freed ones are removed.
_MANY = 256


class _Storage:
    """A storage that was allocated without values."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.alive = StorageWeakRef(storage)
        # True for each unwritten element. Nothing until an operation writes a part: something
        # else may write all of it, such as a Triton kernel or NumPy.
        self.unwritten: np.ndarray | None = None
        self.itemsize = 1


class Unwritten:
    """Tracks the elements of allocated memory that operations have written."""

    def __init__(self) -> None:
        """Tracks nothing yet."""
        self._storages: dict[int, _Storage] = {}
        self._many = _MANY

    def allocated(self, tensor: torch.Tensor) -> None:
        """Begins to track the memory of a tensor without values."""
        if len(self._storages) >= self._many:
            alive = {key: it for key, it in self._storages.items() if not it.alive.expired()}
            self._storages, self._many = alive, max(_MANY, 2 * len(alive))
        storage = tensor.untyped_storage()
        if 0 < storage.nbytes() <= _MOST:
            self._storages[storage._cdata] = _Storage(storage)

    def grown(self, tensor: torch.Tensor, before: int) -> None:
        """Handles a resize of a tensor's storage, which had `before` bytes."""
        storage = tensor.untyped_storage()
        found = self._storages.get(storage._cdata)
        if storage.nbytes() <= before or storage.nbytes() > _MOST:
            return
        if found is not None and found.unwritten is None:
            return
        if found is None:
            found = self._storages[storage._cdata] = _Storage(storage)
            found.itemsize = tensor.itemsize
            old = np.zeros(before // found.itemsize, bool)
        else:
            old = found.unwritten
        new = np.ones(storage.nbytes() // found.itemsize, bool)
        new[: len(old)] = old
        found.unwritten = new

    def written(self, tensor: torch.Tensor, source: torch.Tensor | None = None) -> None:
        """Handles a write to all elements of a tensor, or a copy of those of a source."""
        if not self._storages:
            return
        storage = tensor.untyped_storage()
        found = self._storages.get(storage._cdata)
        if found is None:
            return
        marks = None if source is None else self._marks(source)
        is_all = prod(tensor.shape) * tensor.itemsize == storage.nbytes()
        if marks is None and is_all and tensor.is_contiguous():
            del self._storages[storage._cdata]
            return
        if found.unwritten is None:
            found.itemsize = tensor.itemsize
            found.unwritten = np.ones(storage.nbytes() // found.itemsize, bool)
        elements = _elements(found, tensor)
        if elements is None:
            del self._storages[storage._cdata]
            return
        elements[...] = False if marks is None else marks.copy()
        if not found.unwritten.any():
            del self._storages[storage._cdata]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Returns whether some elements of a tensor are known to be unwritten."""
        marks = self._marks(tensor)
        return marks is not None and bool(marks.any())

    def _marks(self, tensor: torch.Tensor) -> np.ndarray | None:
        if not self._storages:
            return None
        found = self._storages.get(tensor.untyped_storage()._cdata)
        return None if found is None else _elements(found, tensor)


def _elements(storage: _Storage, tensor: torch.Tensor) -> np.ndarray | None:
    """Returns the marks of a tensor's elements; nothing if the storage's have another size."""
    marks = storage.unwritten
    if marks is None or storage.itemsize != tensor.itemsize:
        return None
    return np.lib.stride_tricks.as_strided(
        marks[tensor.storage_offset() :], tensor.shape, tensor.stride()
    )
