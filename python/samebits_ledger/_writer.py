"""The file of a ledger: JSON Lines, each written at once and whole."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from pathlib import Path
from typing import Any

import torch

SCHEMA = 1

# Types whose text describes them; the text of other objects may contain a memory address.
_TEXTS = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme)

_log = logging.getLogger("samebits_ledger")


class Writer:
    """Writes the records of one rank.

    Every record reaches the operating system before `write` returns. A killed program therefore
    leaves a readable prefix, and a forked process inherits no buffer that it could write again.
    After a record that cannot be written, the file has no further ones.
    """

    def __init__(self, path: Path, rank: int) -> None:
        """Creates the file; replaces an existing one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "wb", buffering=0)
        self._rank = rank
        self._lock = threading.Lock()
        self._failed = False
        self.records = 0

    def write(self, event: str, fields: dict[str, Any]) -> None:
        """Appends a record. A failure is logged, not raised: the program continues unrecorded."""
        with self._lock:
            if self._failed:
                return
            head = {"schema": SCHEMA, "event": event, "rank": self._rank, "sequence": self.records}
            line = json.dumps(
                head | fields, separators=(",", ":"), allow_nan=False, ensure_ascii=False
            )
            try:
                # File names may contain bytes that are not text.
                rest = memoryview(line.encode(errors="replace") + b"\n")
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as error:
                self._failed = True
                _log.error("%s ends after record %d: %s", self._file.name, self.records - 1, error)
                return
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
    """Converts a parameter to JSON.

    A float that JSON lacks is one of the strings `NaN`, `inf` and `-inf`; a complex number is the
    pair of its parts; a type, device or layout is its text; any other object, the name of its type.
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
    if isinstance(value, _TEXTS) or isinstance(value, torch.SymInt):
        return str(value)
    return type(value).__qualname__
