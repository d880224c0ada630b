"""Properties of operators that a recorder needs: their reads, writes and random draws."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

# Operators that return memory as it was: equal programs get unequal bytes.
_ALLOCATIONS = frozenset(
    f"aten::{name}"
    for name in (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_quantized",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize",
        "resize_",
        "resize_as",
        "resize_as_",
    )
)

# The operator that writes what it reads, element by element.
COPY = "aten.copy_."

# Operators that give a tensor other memory, as it is.
_RENAMINGS = frozenset(f"aten::{name}" for name in ("set", "set_", "set_data"))

# Operators that write every element of their first argument and read none of it.
_OVERWRITES = frozenset(
    f"aten::{name}"
    for name in (
        "_foreach_copy_",
        "_foreach_zero_",
        "bernoulli_",
        "cauchy_",
        "copy_",
        "exponential_",
        "fill_",
        "geometric_",
        "log_normal_",
        "normal_",
        "random_",
        "uniform_",
        "zero_",
    )
)

# Arguments that forward batch normalisation writes; most of its schemas do not say so.
_STATISTICS = ("running_mean", "running_var")

# Results that are written in part: scratch memory that the backward pass reads in part, the
# probabilities of targets shorter than the longest, and the slopes of `rrelu` out of training.
_SCRATCH = {
    "aten::_ctc_loss": (1,),
    "aten::_ctc_loss_backward": ("log_alpha",),
    "aten::_cudnn_ctc_loss": (1,),
    "aten::_cudnn_rnn": (3, "reserve"),
    "aten::_cudnn_rnn_backward": ("reserve",),
    "aten::cudnn_batch_norm": (3,),
    "aten::cudnn_batch_norm_backward": ("reserveSpace",),
    "aten::miopen_rnn": (3, "reserve"),
    "aten::miopen_rnn_backward": ("reserve",),
    "aten::mkldnn_rnn_layer": (3,),
    "aten::mkldnn_rnn_layer_backward": ("workspace",),
    "aten::rrelu_with_noise": ("noise",),
    "aten::rrelu_with_noise_": ("noise",),
    "aten::rrelu_with_noise_backward": ("noise",),
}

# Operators whose results may be incomplete when the call returns.
_COLLECTIVES = ("c10d", "_c10d_functional")


@dataclass(frozen=True)
class Operator:
    """The description by which calls of one overload are recorded."""

    name: str
    arguments: tuple[str, ...]
    reads: frozenset[str]
    writes: tuple[str, ...]
    draws: bool
    is_view: bool
    is_allocation: bool
    is_collective: bool
    overwrites: frozenset[str]
    scratch: frozenset[int | str]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yields the arguments of a call with their names."""
        yield from zip(self.arguments, args, strict=False)
        yield from kwargs.items()


@functools.cache
def operator(func: torch._ops.OperatorBase) -> Operator:
    """Returns the description of an overload, or of an operator that takes functions."""
    if not isinstance(func, torch._ops.OpOverload):
        names = tuple(map(str, range(64)))
        none: frozenset[Any] = frozenset()
        return Operator(
            str(func), names, frozenset(names), (), False, False, False, False, none, none
        )
    schema = func._schema
    names = tuple(argument.name for argument in schema.arguments)
    overwrites = {argument.name for argument in schema.arguments if argument.is_out}
    if schema.name in _OVERWRITES:
        overwrites.add(names[0])
    is_collective = func.namespace in _COLLECTIVES and "wait_tensor" not in schema.name
    if is_collective:
        overwrites |= {name for name in names if name.startswith("output")}
    statistics = _STATISTICS if "momentum" in names else ()
    scratch = frozenset(_SCRATCH.get(schema.name.removesuffix("_functional"), ()))
    written = tuple(
        argument.name
        for argument in schema.arguments
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or argument.name in statistics
    )
    return Operator(
        name=str(func),
        arguments=names,
        reads=frozenset(names) - overwrites - scratch,
        writes=written,
        draws=torch.Tag.nondeterministic_seeded in func.tags,
        is_view=func.is_view or schema.name in _RENAMINGS,
        is_allocation=schema.name in _ALLOCATIONS,
        is_collective=is_collective,
        overwrites=frozenset(overwrites),
        scratch=scratch,
    )
