"""The recorder: hooks into PyTorch and writes records of its operations."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

import samebits_ledger
from samebits_ledger._environment import environment, rank_and_world_size
from samebits_ledger._keep import Keeper, around
from samebits_ledger._memory import as_usual, unseen
from samebits_ledger._operators import COPY, Operator, operator
from samebits_ledger._sites import call_site, is_arrival
from samebits_ledger._tensors import (
    SYMBOLIC,
    Entry,
    digest,
    entries,
    is_composed,
    tensors_in,
    unread,
)
from samebits_ledger._unwritten import Unwritten
from samebits_ledger._writer import Writer, file_of, plain

Detail = Literal["op", "layer", "step"]
Digests = Literal["full", "sampled"]
Steps = Literal["optimizer", "explicit"]

_active: Recorder | None = None


def record(
    path: str | os.PathLike[str],
    *,
    detail: Detail = "op",
    digests: Digests = "full",
    keep: str | None = None,
    views: bool = False,
    steps: Steps = "optimizer",
    first_step: int = 0,
    modules: Mapping[str, nn.Module] | None = None,
    seeds: Mapping[str, int] | None = None,
    data: str | None = None,
) -> Recorder:
    """Records the operations of a `with` block.

    Args:
        path: a file that ends in `.jsonl`, or a folder, in which each rank writes a file of its
            own. An existing file is replaced.
        detail: `step` records loss, parameters and gradients of each step, and batches; `layer`
            also every module's forward pass; `op` also every operation.
        digests: `sampled` digests 64 blocks of 64 bytes of a tensor of more than 64 KiB.
        keep: with `around:STEP` every recorded tensor of that step, the step before it and the
            step after it is kept whole, in files beside the ledger.
        views: records also operations that only rename memory, such as `aten.view`.
        steps: with `optimizer` a step ends when an optimizer has stepped, with `explicit` when
            `Recorder.step` is called.
        first_step: the number of the first step; a resumed run continues with it.
        modules: names for modules. Without it the first module called has the empty path, its
            submodules have their usual names, and later modules have the names of their types.
        seeds: seeds beside PyTorch's own, for the header.
        data: the identity of the data, for the header.

    Raises:
        ValueError: an argument has another value, or several ranks would write to one file.
    """
    return Recorder(
        path,
        detail=detail,
        digests=digests,
        keep=keep,
        views=views,
        steps=steps,
        first_step=first_step,
        modules=modules,
        seeds=seeds,
        data=data,
    )


class Recorder:
    """Writes the ledger of one rank. Create it with `record`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        detail: Detail,
        digests: Digests,
        keep: str | None,
        views: bool,
        steps: Steps,
        first_step: int,
        modules: Mapping[str, nn.Module] | None,
        seeds: Mapping[str, int] | None,
        data: str | None,
    ) -> None:
        """See `record`."""
        if detail not in ("op", "layer", "step"):
            raise ValueError(f"record: detail is 'op', 'layer' or 'step', not {detail!r}")
        if digests not in ("full", "sampled"):
            raise ValueError(f"record: digests is 'full' or 'sampled', not {digests!r}")
        if steps not in ("optimizer", "explicit"):
            raise ValueError(f"record: steps is 'optimizer' or 'explicit', not {steps!r}")
        self._path = path
        self._detail = detail
        self._digests = digests
        self._around = None if keep is None else around(keep)
        self._keeper: Keeper | None = None
        self._views = views
        self._steps = steps
        self._seeds = dict(seeds or {})
        self._data = data
        self._names = _ModuleNames(modules or {})

        self._step = first_step
        self._microbatch = 0
        self._delivered = False
        self._occurrences: Counter[tuple[str, str, str, str]] = Counter()
        self._loading = 0
        self._optimizing = 0
        self._calls: list[_Call] = []
        self._origins: dict[int, str] = {}
        self._lock = threading.Lock()
        self._unwritten = Unwritten()

        self._loss: Entry | None = None
        self._gradients: dict[str, Entry] = {}
        self._stepped: list[Optimizer] = []

    def __enter__(self) -> Recorder:
        """Opens the file, writes the header, and hooks into PyTorch."""
        global _active
        if _active is not None:
            raise RuntimeError("record: a recorder is already at work; recorders do not nest")
        rank, world_size = rank_and_world_size()
        self._process = os.getpid()
        self._thread = threading.get_ident()
        with ExitStack() as opened:
            path = file_of(self._path, rank, world_size)
            self._writer = Writer(path, rank)
            if self._around is not None:
                self._keeper = Keeper(path, self._around)
            opened.callback(self._writer.close)
            self._writer.write("header", self._header(world_size))
            hooks = (
                register_module_forward_pre_hook(self._before_module),
                register_module_forward_hook(
                    self._after_module, with_kwargs=True, always_call=True
                ),
                register_optimizer_step_pre_hook(self._before_optimizer),
                register_optimizer_step_post_hook(self._after_optimizer),
            )
            for hook in hooks:
                opened.callback(hook.remove)
            if self._detail == "op":
                opened.enter_context(_Dispatch(self))
            self._opened = opened.pop_all()
        _active = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes the hooks, and ends the ledger if the block ended without an exception."""
        global _active
        _active = None
        with self._opened:
            if error is None and os.getpid() == self._process:
                self._writer.write("end", {"records": self._writer.records})

    def loss(self, loss: torch.Tensor) -> None:
        """Sets the loss of this step; the last call of a step counts."""
        with unseen():
            self._loss = next(iter(self._entries(loss)), None)

    def step(self, loss: torch.Tensor | None = None) -> None:
        """Ends a step.

        Raises:
            RuntimeError: steps end with the optimizer's; see the argument `steps` of `record`.
        """
        if self._steps != "explicit":
            raise RuntimeError("step: steps end with the optimizer's; record with steps='explicit'")
        if loss is not None:
            self.loss(loss)
        self._observe(self._end_step)

    def _header(self, world_size: int) -> Entry:
        return {
            "world_size": world_size,
            "writer": {"name": "samebits_ledger", "version": samebits_ledger.__version__},
            "detail": self._detail,
            "digests": self._digests,
            "environment": environment(),
            "seeds": {
                name: seed % 2**64
                for name, seed in ({"torch": torch.initial_seed()} | self._seeds).items()
            },
            "data": self._data,
        }

    def _entries(self, tree: Any, name: str = "") -> list[Entry]:
        keeper = self._keeper
        if keeper is not None and not keeper.keeps(self._step):
            keeper = None
        sampled = self._digests == "sampled"
        return entries(tree, name, sampled=sampled, keeper=keeper, unwritten=self._unwritten)

    def _named(self, tensor: torch.Tensor, name: str) -> dict[str, Entry]:
        return {entry.pop("name", name): entry for entry in self._entries(tensor, name)}

    def _observe(
        self, observe: Callable[..., Any], *args: Any, failed: Callable[[Entry], None] | None = None
    ) -> Any:
        """Calls an observer. Its errors go into the record and never reach the program.

        Args:
            observe: the observer, which takes `args`.
            args: the observed objects.
            failed: records that the observation failed.
        """
        try:
            with unseen():
                return observe(*args)
        except Exception as error:
            if failed is not None:
                failed(unread(error))
            return None

    # Steps and optimizers

    def _is_ours(self) -> bool:
        """Returns whether the caller is the recorded program: not a thread or a loader's worker."""
        return os.getpid() == self._process and threading.get_ident() == self._thread

    def _before_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._is_ours():
            return
        self._optimizing += 1
        self._observe(self._note_gradients, [optimizer], failed=self._lacks_gradients)

    def _after_optimizer(self, optimizer: Optimizer, *_: Any) -> None:
        if not self._is_ours():
            return
        self._optimizing -= 1
        self._stepped.append(optimizer)
        if self._steps == "optimizer":
            self._observe(self._end_step)

    def _note_gradients(self, optimizers: list[Optimizer]) -> None:
        for name, parameter in self._parameters(optimizers):
            if parameter.grad is not None:
                self._gradients |= self._named(parameter.grad, name)

    def _lacks_gradients(self, entry: Entry) -> None:
        self._gradients[""] = entry

    def _end_step(self) -> None:
        parameters: dict[str, Entry] = {}

        def note() -> None:
            for name, parameter in self._parameters(self._stepped):
                parameters.update(self._named(parameter, name))

        def lacks(entry: Entry) -> None:
            parameters[""] = entry

        self._observe(note, failed=lacks)
        if not self._stepped:
            self._observe(self._note_gradients, [], failed=self._lacks_gradients)
        gradients = self._gradients
        fields = {
            "step": self._step,
            "loss": self._loss,
            "parameters": parameters,
            "gradients": gradients,
            "generator": _state(torch.default_generator),
        }
        self._writer.write("step", fields)
        self._step += 1
        self._microbatch = 0
        self._delivered = False
        self._loss = None
        self._gradients = {}
        self._stepped = []
        self._occurrences.clear()
        self._origins.clear()

    def _parameters(self, optimizers: list[Optimizer]) -> Iterator[tuple[str, torch.Tensor]]:
        """Returns the parameters of all optimizers, or without any of all known modules."""
        names = self._names.parameters()
        if not optimizers:
            yield from ((name, parameter) for parameter, name in names.values())
        for optimizer in optimizers:
            for at, group in enumerate(optimizer.param_groups):
                for index, parameter in enumerate(group["params"]):
                    unnamed = f"{type(optimizer).__name__}.{at}.{index}"
                    yield names.get(id(parameter), (parameter, unnamed))[1], parameter

    # Batches

    @contextmanager
    def _loading_data(self) -> Iterator[None]:
        self._loading += 1
        try:
            yield
        finally:
            self._loading -= 1

    def _deliver(self, batch: Any, indices: Callable[[Any], Any] | None) -> None:
        """Records a batch. Every batch of a step but the first begins a microbatch."""
        if self._delivered:
            self._microbatch += 1
            self._occurrences.clear()
        self._delivered = True
        at: list[Entry] = []

        def note() -> None:
            chosen = indices(batch) if indices is not None else None
            if chosen is not None:
                is_tensor = isinstance(chosen, torch.Tensor)
                at.extend(self._entries(chosen if is_tensor else np.asarray(chosen)))

        self._observe(note, failed=at.append)
        fields: Entry = {"step": self._step, "microbatch": self._microbatch}
        fields |= {"tensors": self._entries(batch), "indices": at[0] if at else None}
        self._writer.write("data", fields)

    # Modules

    def _before_module(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_ours():
            return
        call = _Call(weakref.ref(module), type(module).__name__)
        self._observe(self._begin_call, call, module, args, failed=call.inputs.append)
        self._calls.append(call)

    def _begin_call(self, call: _Call, module: nn.Module, args: Any) -> None:
        with suppress(Exception):  # A module that cannot be hashed or listed has its type's name.
            call.path = self._names.of(module, self._calls[-1].module() if self._calls else None)
        if self._detail != "step":
            call.inputs += self._entries(args, "input")

    def _after_module(self, module: nn.Module, args: Any, *rest: Any) -> None:
        if torch.compiler.is_compiling() or not self._is_ours() or not self._calls:
            return
        call = self._calls.pop()
        while call.module() is not module and self._calls:
            call = self._calls.pop()
        # After an exception PyTorch gives no keyword arguments and the output None.
        *_, output = rest
        if self._detail == "step" or output is None:
            return
        self._observe(self._end_call, call, type(module).__name__, rest[0], output)

    def _end_call(self, call: _Call, name: str, kwargs: Any, output: Any) -> None:
        inputs = call.inputs + self._entries(kwargs)
        outputs = self._entries(output)
        phase = "forward" if torch._C._current_graph_task_id() == -1 else "backward"
        self._emit("layer", phase, name, call.path, inputs, outputs)

    # Operations

    def _operation(
        self, func: torch._ops.OperatorBase, args: tuple[Any, ...], kwargs: Entry
    ) -> Any:
        """Describes the inputs of an operation, runs it, and describes its outputs."""
        operation = _Operation()
        self._observe(self._before, operation, func, args, kwargs, failed=operation.lacks)
        with as_usual():
            result = func(*args, **kwargs)
        if not operation.is_left_out:
            self._observe(self._after, operation, result, failed=operation.lacks)
            self._observe(self._end_operation, operation, str(func))
        return result

    def _before(
        self, operation: _Operation, func: torch._ops.OperatorBase, args: Any, kwargs: Entry
    ) -> None:
        known = operation.func = operator(func)
        if known.is_allocation:
            operation.size = args[0].untyped_storage().nbytes() if known.writes else 0
            return
        if (known.is_view and not self._views) or (self._loading and is_arrival()):
            operation.is_left_out = True
            return
        bound = operation.bound = dict(known.bind(args, kwargs))
        operation.module, operation.phase = self._place(bound)
        for name, value in bound.items():
            if name in known.reads:
                operation.inputs += self._entries(value, name)
        if known.draws:
            operation.draws_from = _generator(bound)
            operation.before = _state(operation.draws_from)

    def _after(self, operation: _Operation, result: Any) -> None:
        known, bound = operation.func, operation.bound
        if known is None:
            return
        self._follow(operation, known, result)
        if known.is_allocation:
            return
        if not known.is_collective:
            operation.outputs += self._outputs(known, bound, result)
        operation.after = _state(operation.draws_from)
        operation.parameters = {
            name: plain(value)
            for name, value in bound.items()
            if value is not None
            and not isinstance(value, torch.Generator)
            and next(tensors_in(value), None) is None
        }

    def _follow(self, operation: _Operation, known: Operator, result: Any) -> None:
        """Tracks the memory that an operation allocated or wrote."""
        with suppress(Exception):  # Memory that cannot be tracked is read as it is.
            if known.is_allocation:
                for _, tensor in tensors_in(result):
                    if known.writes:
                        self._unwritten.grown(tensor, operation.size)
                    else:
                        self._unwritten.allocated(tensor)
            elif known.overwrites:
                source = operation.bound.get("src") if known.name.startswith(COPY) else None
                written = [operation.bound.get(name) for name in known.overwrites]
                for _, tensor in tensors_in(written):
                    self._unwritten.written(tensor, source)

    def _end_operation(self, operation: _Operation, name: str) -> None:
        if operation.inputs or operation.outputs:
            draws = operation.draws_from is not None
            generator = {"before": operation.before, "after": operation.after} if draws else None
            self._emit(
                "op",
                operation.phase,
                name,
                operation.module,
                operation.inputs,
                operation.outputs,
                operation.parameters,
                generator,
            )

    def _outputs(self, func: Operator, bound: Entry, result: Any) -> list[Entry]:
        """Returns the entries of the written arguments, then those of all other results."""
        written = {name: bound[name] for name in func.writes if name in bound}
        found = [
            entry
            for name, value in written.items()
            if name not in func.scratch
            for entry in self._entries(value, name)
        ]
        seen = {id(tensor) for _, tensor in tensors_in(written)}
        results = result if isinstance(result, (list, tuple)) else (result,)
        for index, value in enumerate(results):
            if index not in func.scratch and id(value) not in seen:
                found += self._entries(value)
        return found

    def _place(self, bound: Entry) -> tuple[str, str]:
        """Returns the module path and the phase of an operation that is about to run.

        An operation of the backward pass belongs to the module whose forward operation it
        differentiates: both have the sequence number of the autograd node.
        """
        path = self._calls[-1].path if self._calls else ""
        if torch._C._current_graph_task_id() != -1:
            node = torch._C._current_autograd_node()
            if not self._calls and node is not None:
                path = self._origins.get(node._sequence_nr(), "")
            return path, "backward"
        if torch.is_grad_enabled():
            self._origins.setdefault(torch._C._autograd._get_sequence_nr() - 1, path)
        if self._calls:
            return path, "forward"
        if self._loading:
            return path, "data"
        if self._optimizing:
            return path, "optimizer"
        differentiable = torch.is_grad_enabled() and any(
            isinstance(tensor, torch.Tensor) and tensor.requires_grad
            for _, tensor in tensors_in(bound)
        )
        return path, "forward" if differentiable else "other"

    def _emit(
        self,
        event: str,
        phase: str,
        name: str,
        module: str,
        inputs: list[Entry],
        outputs: list[Entry],
        parameters: Entry | None = None,
        generator: Entry | None = None,
    ) -> None:
        key = (event, phase, module, name)
        with self._lock:
            occurrence = self._occurrences[key]
            self._occurrences[key] += 1
        fields = {
            "step": self._step,
            "microbatch": self._microbatch,
            "phase": phase,
            "name": name,
            "module": module,
            "site": call_site(),
            "occurrence": occurrence,
            "inputs": inputs,
            "outputs": outputs,
            "parameters": parameters or {},
            "generator": generator,
        }
        self._writer.write(event, fields)


class _Call:
    """A module whose forward pass is running."""

    def __init__(self, module: weakref.ref[nn.Module], path: str) -> None:
        self.module = module
        self.path = path
        self.inputs: list[Entry] = []


class _Operation:
    """The state of an operation that is running."""

    def __init__(self) -> None:
        self.func: Operator | None = None
        self.is_left_out = False
        self.bound: Entry = {}
        self.phase = "other"
        self.module = ""
        self.inputs: list[Entry] = []
        self.outputs: list[Entry] = []
        self.parameters: Entry = {}
        # The size of a storage in bytes before it is resized.
        self.size = 0
        self.draws_from: torch.Generator | None = None
        self.before: Entry | None = None
        self.after: Entry | None = None

    def lacks(self, entry: Entry) -> None:
        """Marks a part of it as unreadable."""
        self.outputs.append(entry)


class _ModuleNames:
    """Paths of modules, found when a module is first called. Keeps no module alive."""

    def __init__(self, given: Mapping[str, nn.Module]) -> None:
        self._paths: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._roots: dict[str, weakref.ref[nn.Module]] = {}
        for name, module in given.items():
            self._add(name, module)

    def of(self, module: nn.Module, caller: nn.Module | None) -> str:
        """Returns the path of a module that `caller`, or else the program, calls."""
        known = self._paths.get(module)
        if known is not None:
            return known
        if caller is None:
            self._add(self._free_name(type(module).__name__) if self._roots else "", module)
        else:
            self._add_below(self._paths.get(caller, ""), caller)
        return self._paths.setdefault(module, type(module).__name__)

    def parameters(self) -> dict[int, tuple[torch.Tensor, str]]:
        """Returns the parameters of the known modules with their names, by identity."""
        found: dict[int, tuple[torch.Tensor, str]] = {}
        for root, reference in self._roots.items():
            module = reference()
            for name, parameter in module.named_parameters() if module is not None else ():
                found.setdefault(id(parameter), (parameter, _join(root, name)))
        return found

    def _free_name(self, name: str) -> str:
        number = 1
        free = name
        while free in self._roots:
            number += 1
            free = f"{name}#{number}"
        return free

    def _add(self, name: str, module: nn.Module) -> None:
        self._roots[name] = weakref.ref(module)
        self._add_below(name, module)

    def _add_below(self, prefix: str, module: nn.Module) -> None:
        for name, found in module.named_modules():
            self._paths.setdefault(found, _join(prefix, name))


class _Dispatch(TorchDispatchMode):
    """Passes a recorder every operation of its thread, and of autograd's threads for it."""

    supports_higher_order_operators = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Entry | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        recorder = self._recorder
        symbolic = any(issubclass(kind, SYMBOLIC) for kind in types)
        if symbolic or os.getpid() != recorder._process:
            with as_usual():
                return func(*args, **kwargs)
        if any(map(is_composed, types)) and torch._C._len_torch_dispatch_stack() == 0:
            # The tensor takes the operation apart; the parts come back here. With another mode on
            # the stack the operation is that mode's first.
            return NotImplemented
        return recorder._operation(func, args, kwargs)


def _generator(bound: Entry) -> torch.Generator | None:
    """Returns the generator of a call: its own, or the default one of its device."""
    for value in bound.values():
        if isinstance(value, torch.Generator):
            return value
    tensors = (tensor for _, tensor in tensors_in(bound) if isinstance(tensor, torch.Tensor))
    devices = [tensor.device for tensor in tensors]
    device = torch.device(bound.get("device") or (devices[0] if devices else "cpu"))
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    return None


def _state(generator: torch.Generator | None) -> Entry | None:
    """Returns the position of a generator, or nothing if it cannot be read."""
    if generator is None:
        return None
    try:
        return {"digest": digest(generator.get_state())}
    except Exception:  # The position is unknown if the draw is still to come.
        return None


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name


def watch(loader: Iterable[Any], indices: Callable[[Any], Any] | None = None) -> Watched:
    """Wraps a loader, so that an active recorder records each batch.

    Args:
        loader: any iterable of batches.
        indices: returns the indices of a batch's samples, for the ledger.
    """
    return Watched(loader, indices)


class Watched:
    """A loader that reports its batches to recorders. Create it with `watch`."""

    def __init__(self, loader: Iterable[Any], indices: Callable[[Any], Any] | None) -> None:
        """See `watch`."""
        self._loader = loader
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        """Yields the loader's batches."""
        with _loading():
            batches = iter(self._loader)
        while True:
            with _loading():
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            if _active is not None and _active._is_ours():
                _active._observe(_active._deliver, batch, self._indices)
            yield batch

    def __len__(self) -> int:
        """Returns the number of batches, if the loader knows it."""
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the loader."""
        if name == "_loader":  # A copy that is not filled yet.
            raise AttributeError(name)
        return getattr(self._loader, name)


def _loading() -> AbstractContextManager[None]:
    if _active is None or not _active._is_ours():
        return ExitStack()
    return _active._loading_data()
