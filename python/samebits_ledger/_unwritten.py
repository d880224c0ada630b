"""Memory that a program has not written: what it holds is chance, and no value."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

# The elements of a larger storage are not followed one by one.
_MOST = 1 << 28
# Storages that are gone are forgotten when there are so many.
_MANY = 256


class _Storage:
    """A storage that was allocated without values."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.alive = StorageWeakRef(storage)
        # Whether each element is unwritten. Nothing as long as no operation wrote a part of it:
        # something else may write all of it, a kernel of Triton or NumPy.
        self.unwritten: np.ndarray | None = None
        self.itemsize = 1


class Unwritten:
    """Follows which elements of allocated memory operations have written."""

    def __init__(self) -> None:
        """Follows nothing yet."""
        self._storages: dict[int, _Storage] = {}
        self._many = _MANY

    def allocated(self, tensor: torch.Tensor) -> None:
        """Begins to follow the memory of a tensor without values."""
        if len(self._storages) >= self._many:
            alive = {key: it for key, it in self._storages.items() if not it.alive.expired()}
            self._storages, self._many = alive, max(_MANY, 2 * len(alive))
        storage = tensor.untyped_storage()
        if 0 < storage.nbytes() <= _MOST:
            self._storages[storage._cdata] = _Storage(storage)

    def grown(self, tensor: torch.Tensor, before: int) -> None:
        """Notes that the storage of a tensor had so many bytes before."""
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
        """Notes that an operation wrote all elements of a tensor, or copied those of a source."""
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
        """Whether some elements of a tensor are known to be unwritten."""
        marks = self._marks(tensor)
        return marks is not None and bool(marks.any())

    def _marks(self, tensor: torch.Tensor) -> np.ndarray | None:
        if not self._storages:
            return None
        found = self._storages.get(tensor.untyped_storage()._cdata)
        return None if found is None else _elements(found, tensor)


def _elements(storage: _Storage, tensor: torch.Tensor) -> np.ndarray | None:
    """The marks of a tensor's elements; nothing if those of the storage are of another size."""
    marks = storage.unwritten
    if marks is None or storage.itemsize != tensor.itemsize:
        return None
    return np.lib.stride_tricks.as_strided(
        marks[tensor.storage_offset() :], tensor.shape, tensor.stride()
    )
