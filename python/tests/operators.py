"""Runs PyTorch's operator test database under the recorder: `operators.py FOLDER NAME..`.

Writes a ledger for each operator and type, and prints a line for each fault: an exception that the
program does not raise by itself, or a result that is neither that without a mode nor that under any
mode. Without names all operators run.
"""

import sys
import warnings
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

import samebits_ledger

TYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16)
# The maximum number of samples of each operator and type.
SAMPLES = 8
# Operators whose results differ between calls even without a recorder, by LAPACK's addresses.
UNSTEADY = ("linalg.lstsq",)
# Operators whose samples share running statistics and change them.
SHARING = ("_native_batch_norm_legit", "native_batch_norm", "nn.functional.batch_norm")
# Operators that return memory as it was.
ALLOCATIONS = frozenset(
    (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    )
)


class Passing(TorchDispatchMode):
    """A mode that does nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def tensors(tree):
    """Yields the tensors in nested lists, tuples and dictionaries."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors(item)


def run(op, sample):
    """Calls an operator and differentiates its results."""
    torch.manual_seed(0)
    results = list(tensors(op(sample.input, *sample.args, **sample.kwargs)))
    losses = [
        (y.abs() if y.is_complex() else y).sum()
        for y in results
        if y.requires_grad and y.layout is torch.strided
    ]
    if losses:
        given = tensors([sample.input, sample.args, sample.kwargs])
        leaves = [x for x in given if x.requires_grad]
        results += torch.autograd.grad(losses, leaves, allow_unused=True)
    return results


def bits(results):
    """Returns the properties by which results are compared."""
    shown = []
    for x in results:
        if isinstance(x, torch.Tensor) and x.layout is torch.strided and not x.is_quantized:
            x = x.detach().resolve_conj().resolve_neg().contiguous()
            shown.append((x.dtype, x.shape, x.view(-1).view(torch.uint8).tolist()))
        else:
            shown.append(type(x))
    return shown


def samples(op, dtype):
    """Yields samples that the operator accepts without a recorder, with their results.

    These are the results without a mode, and those under a mode that does nothing; nothing if they
    are others each time.
    """
    grad = op.supports_autograd and dtype.is_floating_point | dtype.is_complex
    try:
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    except Exception:
        return
    for sample in found[:: max(1, len(found) // SAMPLES)]:
        try:
            expected = [bits(run(op, sample))]
            # Some operators change their arguments, and so the next results.
            is_steady = op.name not in {*ALLOCATIONS, *SHARING, *UNSTEADY} and expected == [
                bits(run(op, sample))
            ]
            # PyTorch uses some other formulas under any mode.
            with Passing():
                expected.append(bits(run(op, sample)))
            yield sample, expected if is_steady else None
        except Exception:  # Not available for this type, or not differentiable.
            continue


def check(op, dtype, path):
    """Records an operator. Yields the faults."""
    plain = list(samples(op, dtype))
    if not plain:
        return
    with samebits_ledger.record(path, steps="explicit") as recorder:
        for sample, expected in plain:
            try:
                found = run(op, sample)
            except Exception as error:
                yield f"{type(error).__name__}: {error}"
                continue
            # Reading the results of allocations would put unwritten memory into the ledger.
            if expected is not None and bits(found) not in expected:
                yield "other results"
            recorder.step()


def main(folder, *names):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for op in op_db:
        if names and op.name not in names:
            continue
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        for dtype in TYPES:
            if dtype in op.supported_dtypes("cpu"):
                path = Path(folder, f"{name}.{str(dtype).removeprefix('torch.')}.jsonl")
                for fault in check(op, dtype, path):
                    print(f"{name} of {dtype}: {fault}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
