"""Tensors that are kept whole, in files beside the ledger."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from samebits_ledger._digest import NANS, sum64


def around(keep: str) -> int:
    """Returns the step of `around:STEP`.

    Raises:
        ValueError: the text has another form.
    """
    found = re.fullmatch(r"around:(\d+)", keep, re.ASCII)
    if found is None:
        raise ValueError(f"record: keep is 'around:STEP', not {keep!r}")
    return int(found[1])


class Keeper:
    """Writes arrays into a folder, one file for all that have the same bytes."""

    def __init__(self, ledger: Path, step: int) -> None:
        """Keeps the tensors of `step`, the step before it and the step after it."""
        self._folder = ledger.with_suffix(".tensors")
        self._step = step
        self._written: set[str] = set()

    def keeps(self, step: int) -> bool:
        """Returns whether the tensors of `step` are kept."""
        return abs(step - self._step) <= 1

    def keep(self, array: np.ndarray, dtype: str) -> str:
        """Returns the file of the array's bytes, relative to the ledger's folder."""
        # A sampled digest does not distinguish all contents.
        name = f"{sum64(array, NANS.get(dtype))}.{dtype}"
        if name not in self._written:
            self._folder.mkdir(exist_ok=True)
            # Nothing else writes into the folder, so one name serves until the file is whole.
            part = self._folder / "part"
            part.write_bytes(array.tobytes())
            part.replace(self._folder / name)
            self._written.add(name)
        return f"{self._folder.name}/{name}"
