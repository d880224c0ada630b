"""The file of a ledger: JSON Lines, each written whole and at once."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

SCHEMA = 1


class Writer:
    """Writes the records of one rank.

    Every record reaches the operating system before `write` returns. A killed program therefore
    leaves a readable prefix, and a forked process inherits no buffer that it could write again.
    """

    def __init__(self, path: Path, rank: int) -> None:
        """Creates the file; replaces one that is there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "wb", buffering=0)
        self._rank = rank
        self._lock = threading.Lock()
        self.records = 0

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Appends a record."""
        with self._lock:
            head = {"schema": SCHEMA, "event": event, "rank": self._rank, "sequence": self.records}
            line = json.dumps(head | fields, separators=(",", ":"), allow_nan=False)
            rest = memoryview(line.encode() + b"\n")
            while rest:
                rest = rest[self._file.write(rest) :]
            self.records += 1

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def file_of(path: str | os.PathLike[str], rank: int, world_size: int) -> Path:
    """Returns the file of a rank: the path itself if it ends in `.jsonl`, else one in that folder.

    Raises:
        ValueError: several ranks would write to one file.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        return path / f"rank_{rank:06}.jsonl"
    if world_size > 1:
        raise ValueError(
            f"record: {world_size} ranks need a folder, {os.fspath(path)!r} is one file; "
            "give a path that does not end in .jsonl"
        )
    return path


def plain(value: Any) -> Any:
    """Returns a parameter as JSON has it.

    A float that JSON has not is one of the strings `NaN`, `inf` and `-inf`; a complex number is the
    pair of its parts; whatever else JSON has not, its text.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else str(value)
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)
