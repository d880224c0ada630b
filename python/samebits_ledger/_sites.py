"""Call sites: the line of the program that called an operation."""

from __future__ import annotations

import functools
import multiprocessing.connection
import multiprocessing.queues
import os
import sys
import sysconfig

import torch

_LIBRARIES = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

# The files that unpickle the data of other processes.
_ARRIVALS = frozenset(
    function.__code__
    for function in (
        multiprocessing.queues.Queue.get,
        multiprocessing.queues.SimpleQueue.get,
        multiprocessing.connection.Connection.recv,
    )
)


def is_arrival() -> bool:
    """Returns whether the caller unpickles data of another process, at a random time."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _ARRIVALS:
            return True
        frame = frame.f_back
    return False


def call_site() -> str:
    """Returns `file:line` of the innermost frame outside PyTorch, this package and Python."""
    frame = sys._getframe(1)
    while frame is not None:
        shown = _shown(frame.f_code.co_filename)
        if shown:
            return f"{shown}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.cache
def _shown(file: str) -> str:
    """Returns a file's name relative to the import path; empty for libraries."""
    if file.startswith(("<frozen ", "<eval_with_key>", *_LIBRARIES)):
        return ""
    if file.startswith(_STANDARD) and not any(part in file for part in _PACKAGES):
        return ""
    if not os.path.isabs(file):
        return file
    roots = [os.path.abspath(root) + os.sep for root in (*sys.path, os.getcwd())]
    length = max((len(root) for root in roots if file.startswith(root)), default=0)
    return file[length:].replace(os.sep, "/") if length else os.path.basename(file)
