"""Programs of every kind run as if there were no recorder: no exception, and the same results."""

import copy
import gc
import logging
import os
import pickle
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import torch
from compare import read
from torch import distributed, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.flop_counter import FlopCounterMode

import samebits_ledger

PROGRAMS = {}


def program(function):
    """Adds a program: a function without arguments that returns tensors."""
    PROGRAMS[function.__name__] = function
    return function


def model():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


@program
def resized_in_place():
    x = torch.ones(2) * 2
    x.resize_(4).fill_(1)
    return x


@program
def resized_by_out():
    out = torch.ones(2) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(torch.ones(5), 1, out=out)
    return out


@program
def storage_resized():
    x = torch.arange(6.0) * 2
    y = x.clone()
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(24)
    return x.copy_(y) + 1


@program
def storage_freed_under_a_module():
    linear = nn.Linear(4, 2)
    kept = linear.weight.detach().clone()
    linear.weight.untyped_storage().resize_(0)
    seen = list(linear.weight.shape)
    linear.weight.untyped_storage().resize_(32)
    linear.weight.data.copy_(kept)
    return linear(torch.ones(1, 4)), torch.tensor(seen)


@program
def lazy_clone():
    x = torch.ones(3) * 3
    y = torch._lazy_clone(x) * 1
    z = torch._lazy_clone(x)
    z.sum()
    return y, torch.tensor(torch._C._is_cow_tensor(z))


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()


@program
def nested_tensors_under_inference_mode():
    mask = torch.tensor([[False, False, True], [False, False, False]])
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        return encoder()(torch.randn(2, 3, 8), src_key_padding_mask=mask)


@program
def nested_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strided = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        moved = (strided * 2).transpose(1, 2)
        jagged = torch.nested.nested_tensor(
            [torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, requires_grad=True
        )
        nn.ReLU()(jagged).values().sum().backward()
    return *moved.unbind(), jagged.grad.values()


@program
def jvp():
    net = model()
    return torch.func.jvp(net, (torch.ones(2, 4),), (torch.ones(2, 4),))


@program
def jacobians_and_hessians():
    def f(x):
        return x.sin().sum() * x.exp().prod()

    x = torch.randn(3)
    return (
        torch.func.jacrev(torch.sin)(x),
        torch.func.jacfwd(torch.sin)(x),
        torch.func.hessian(f)(x),
        torch.autograd.functional.hessian(f, x),
    )


@program
def gradients_of_each_sample():
    net = model()
    weights = dict(net.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(net, weights, x[None]).square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, torch.randn(5, 4))
    return tuple(found.values())


@program
def random_numbers_of_each_sample():
    def noisy(x):
        return x + torch.randn(2)

    return torch.vmap(noisy, randomness="different")(torch.ones(3, 2))


@program
def functionalized():
    def f(x):
        return x.clone().add_(1).view(-1).mul_(2)

    return torch.func.functionalize(f)(torch.ones(2, 2))


@program
def forward_mode():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2, 4), torch.ones(2, 4))
        return tuple(forward_ad.unpack_dual(model()(dual)))


@program
def traced():
    net = model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Sizes that the recorder reads are not part of the trace.
        warnings.simplefilter("error", torch.jit.TracerWarning)
        found = torch.jit.trace(net, torch.ones(2, 4))
    return found(torch.ones(3, 4)), str([node.kind() for node in found.inlined_graph.nodes()])


@program
def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(model())(torch.ones(2, 4))


@program
def exported():
    found = torch.export.export(model(), (torch.ones(2, 4),))
    return found.module()(torch.ones(2, 4)), found.graph_module.code


@program
def traced_symbolically():
    def f(x):
        return (x * 2).sum(0)

    kinds = ("real", "fake", "symbolic")
    return tuple(make_fx(f, tracing_mode=kind)(torch.ones(2, 3)).code for kind in kinds)


@program
def fake_tensors():
    with FakeTensorMode() as mode:
        net = model()
        y = net(torch.ones(2, 4)) + torch.rand(2)
    z = mode.from_tensor(torch.ones(3)) * 2
    return torch.tensor([*y.shape, *z.shape])


@program
def meta_tensors():
    return torch.tensor(model().to("meta")(torch.ones(2, 4, device="meta")).shape)


@program
def masked_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = masked_tensor(torch.arange(4.0), torch.tensor([True, False, True, True]))
        x.requires_grad_()
        (nn.Identity()(x) * 2).sum().backward()
        return x.grad.get_data(), x.grad.get_mask()


@program
def tensors_of_tensors():
    pair = TwoTensor(torch.ones(2), torch.zeros(2))
    y = nn.ReLU()(pair) * 2
    with FlopCounterMode(display=False):
        z = pair + 1
    return y.a, y.b, z.a, z.b


@program
def sparse_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.eye(3).to_sparse().requires_grad_()
        nn.Identity()(torch.sparse.mm(x, torch.ones(3, 2))).sum().backward()
        rows = torch.eye(3).to_sparse_csr()
        return x.grad.to_dense(), (rows @ torch.ones(3, 2))


@program
def quantized_tensors():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.quantize_per_tensor(torch.linspace(0, 1, 5), 0.1, 3, torch.qint8)
        packed = torch.quantize_per_channel(
            torch.ones(2, 4),
            torch.ones(2),
            torch.zeros(2, dtype=torch.float),
            0,
            torch.quint4x2,
        )
        return nn.Identity()(x).dequantize(), torch.tensor(packed.shape)


@program
def views_of_conjugates():
    z = torch.complex(torch.ones(3), torch.arange(3.0)).requires_grad_()
    y = nn.Identity()(z.conj()) * 2
    (y.imag.abs().sum() + y.real.sum()).backward()
    return y.detach(), z.grad, z.conj().imag.detach() + 1


@program
def conjugates_within_operations():
    z = torch.complex(torch.arange(6.0), torch.ones(6)).view(3, 2).requires_grad_()
    y = torch.linalg.pinv(z)
    return y.detach(), torch.autograd.grad(y.abs().sum(), z)[0]


@program
def autocast():
    x = torch.linspace(0, 1, 120).view(30, 4)
    with torch.autocast("cpu", torch.bfloat16):
        found = model()(x), torch.cdist(x, x), torch.softmax(x, 0)
    return tuple(y.float() for y in found)


@program
def small_types():
    names = ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "bfloat16")
    kinds = [getattr(torch, name) for name in names]
    return tuple(nn.Identity()(torch.ones(3).to(kind)).to(torch.float32) for kind in kinds)


@program
def other_memory_formats():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)(x)
    return y, torch.tensor([x.stride(), y.stride()])


@program
def lazy_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    return net(torch.ones(2, 5))


class Strange(nn.Module):
    """A module that cannot be hashed or listed, with outputs of unusual types."""

    __hash__ = None

    def named_modules(self, *args, **kwargs):
        raise RuntimeError("not now")

    def forward(self, x):
        loop = [x]
        loop.append(loop)
        return {"array": np.arange(3, dtype=">i4"), "loop": loop, None: np.longdouble(1)}


@program
def strange_modules():
    return Strange()(torch.ones(2))["loop"][0]


class Refusing(torch.Tensor):
    """A tensor whose functions all fail after a switch is set."""

    refuses = False

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if cls.refuses:
            raise RuntimeError(f"{func} is refused")
        return super().__torch_function__(func, types, args, kwargs)


@program
def refusing_tensors():
    x = torch.ones(2).as_subclass(Refusing)
    Refusing.refuses = True
    try:
        nn.Identity()(x)
    finally:
        Refusing.refuses = False
    return x.as_subclass(torch.Tensor)


@program
def higher_order_operators():
    def f(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(torch.ones(3)), f(-torch.ones(3))


@program
def inference_tensors():
    with torch.inference_mode():
        x = torch.ones(3) * 2
    return nn.Identity()(x) + 1, torch.tensor(x.is_inference())


@program
def state_of_tensors():
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    z = nn.Identity()(y)
    before = [y._version, y.data_ptr() == z.data_ptr(), y.requires_grad, y.is_leaf]
    y.add_(1)
    return torch.tensor([*before, y._version]), str(type(y.grad_fn))


@program
def memory_of_gradients():
    net = model()
    net(torch.ones(2, 4)).sum().backward()
    addresses = [p.grad.data_ptr() for p in net.parameters()]
    net(torch.ones(2, 4)).sum().backward()
    kept = [p.grad.data_ptr() for p in net.parameters()]
    return torch.tensor([a == b for a, b in zip(addresses, kept, strict=True)])


@program
def default_device_and_functions():
    with torch.device("meta"):
        x = torch.ones(3)
    return torch.tensor(x.shape), torch.rand(2)


@program
def swapped_and_shared():
    net = model()
    other = copy.deepcopy(net)
    x = torch.ones(2, 4)
    y = net(x)
    torch.utils.swap_tensors(net[0].weight, other[0].weight)
    z = torch.ones(3).share_memory_() * 2
    return y, net(x), pickle.loads(pickle.dumps(z.numpy())), z


@program
def deleted_at_once():
    net = model()
    x = torch.ones(2, 4)
    y = net(x)
    del net, x
    gc.collect()
    return y.detach().clone()


@program
def undefined_gradients():
    x = torch.ones(3, requires_grad=True)
    y = torch.ones(3, requires_grad=True)
    return torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)[0]


def outcome(run):
    """Returns the results of a program, and the final position of the generator."""
    torch.manual_seed(0)
    found = run()
    found = found if isinstance(found, tuple) else (found,)
    shown = [
        (x.dtype, x.shape, x.stride(), x.requires_grad, x.detach().clone().numpy().tobytes())
        if isinstance(x, torch.Tensor)
        else str(x)
        for x in found
    ]
    return [*shown, torch.get_rng_state().numpy().tobytes()]


class Observed(unittest.TestCase):
    """Each program with and without a recorder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.a = self.folder / "a.jsonl"

    def test_programs(self):
        for name, run in PROGRAMS.items():
            torch.compiler.reset()
            plain = outcome(run)
            for detail in ("op", "layer", "step"):
                for views in (False, True):
                    with self.subTest(name, detail=detail, views=views):
                        torch.compiler.reset()
                        with samebits_ledger.record(self.a, detail=detail, views=views):
                            found = outcome(run)
                        self.assertEqual(found, plain)
                        self.assertEqual(read(self.a)[-1]["event"], "end")

    def reasons(self):
        tensors = [
            tensor
            for record in read(self.a)
            for tensor in record.get("inputs", []) + record.get("outputs", [])
        ]
        self.assertTrue(all(("digest" in t) != ("reason" in t) for t in tensors))
        return [tensor["reason"] for tensor in tensors if "reason" in tensor]

    def test_what_is_not_read_has_a_reason(self):
        found = {}
        for name, run in PROGRAMS.items():
            torch.manual_seed(0)
            with samebits_ledger.record(self.a, detail="layer" if "strange" in name else "op"):
                run()
            found[name] = set(self.reasons())
        unread = {name: reasons for name, reasons in found.items() if reasons}
        wrapper = {"NotImplementedError: Cannot access storage of TensorWrapper"}
        self.assertEqual(
            unread.pop("strange_modules"),
            {"RecursionError: maximum recursion depth exceeded while calling a Python object"},
        )
        self.assertEqual(
            unread,
            {
                "gradients_of_each_sample": wrapper,
                "jvp": wrapper,
                "masked_tensors": {"it has no memory"},
                "quantized_tensors": {"elements of torch.quint4x2 are not read"},
            },
        )

    def test_a_freed_storage(self):
        x = torch.ones(2) * 2
        x.untyped_storage().resize_(0)
        with samebits_ledger.record(self.a, detail="layer"):
            nn.Identity()(x)
        self.assertEqual(self.reasons(), ["its storage is smaller than the tensor"] * 2)
        entry = read(self.a)[1]["inputs"][0]
        self.assertEqual((entry["shape"], entry["dtype"], entry["device"]), ([2], "f32", "cpu"))

    def test_a_full_disk(self):
        with self.assertLogs("samebits_ledger", logging.ERROR) as logged:
            with samebits_ledger.record(self.a) as recorder:
                torch.ones(2) + 1
                with unittest.mock.patch.object(recorder._writer, "_file") as file:
                    file.write.side_effect = OSError("No space left on device")
                    torch.ones(2) + 1
                torch.ones(2) + 1
        self.assertEqual(len(logged.records), 1)
        self.assertEqual([r["event"] for r in read(self.a)], ["header", "op", "op"])

    def test_a_fault_of_the_recorder(self):
        broken = unittest.mock.patch.object(
            samebits_ledger.Recorder, "_place", side_effect=KeyError("planted")
        )
        with samebits_ledger.record(self.a), broken:
            x = torch.ones(2) + 1
        self.assertEqual(x.tolist(), [2, 2])
        self.assertEqual(self.reasons(), ["KeyError: 'planted'"] * 2)
        broken = unittest.mock.patch.object(
            samebits_ledger.Recorder, "_parameters", side_effect=KeyError("planted")
        )
        weight = torch.ones(2, requires_grad=True)
        with samebits_ledger.record(self.a), broken:
            weight.sum().backward()
            torch.optim.SGD([weight], 0.1).step()
        step = next(record for record in read(self.a) if record["event"] == "step")
        for part in ("parameters", "gradients"):
            self.assertEqual(step[part][""]["reason"], "KeyError: 'planted'")

    def test_indices_that_cannot_be_had(self):
        def indices(batch):
            raise RuntimeError("none")

        with samebits_ledger.record(self.a):
            batches = list(samebits_ledger.watch([torch.ones(2)], indices))
        self.assertEqual(len(batches), 1)
        record = next(record for record in read(self.a) if record["event"] == "data")
        self.assertEqual(record["indices"]["reason"], "RuntimeError: none")

    def test_exceptions_of_the_program_stay_its_own(self):
        with samebits_ledger.record(self.a):
            with self.assertRaisesRegex(RuntimeError, "must match the size"):
                torch.ones(2) + torch.ones(3)
            with self.assertRaises(ZeroDivisionError):
                for _ in samebits_ledger.watch([1]):
                    raise ZeroDivisionError
        self.assertEqual(read(self.a)[-1]["event"], "end")

    @unittest.skipUnless(hasattr(os, "fork"), "there are no forks")
    def test_a_forked_process_writes_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorder = samebits_ledger.record(self.a)
            with recorder:
                child = os.fork()
                if child == 0:
                    try:
                        torch.ones(2) + 1
                        recorder.__exit__(None, None, None)
                    finally:
                        os._exit(0)
                os.waitpid(child, 0)
                torch.ones(3)
        self.assertEqual([r["event"] for r in read(self.a)], ["header", "op", "end"])

    @unittest.skipUnless(distributed.is_available(), "PyTorch was built without collectives")
    def test_fully_sharded(self):
        from torch.distributed.fsdp import fully_shard

        store = f"file://{self.folder}/store"
        distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        self.addCleanup(distributed.destroy_process_group)
        mesh = distributed.init_device_mesh("cpu", (1,))

        def train():
            torch.manual_seed(0)
            net = nn.Linear(4, 2)
            fully_shard(net, mesh=mesh)
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for _ in range(2):
                net(torch.ones(3, 4)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            return tuple(p.to_local().detach() for p in net.parameters())

        plain = outcome(train)
        for detail in ("op", "layer", "step"):
            with self.subTest(detail):
                with samebits_ledger.record(self.a, detail=detail):
                    found = outcome(train)
                self.assertEqual(found, plain)
                step = next(record for record in read(self.a) if record["event"] == "step")
                entry = step["parameters"]["weight._local_tensor"]
                self.assertIn("digest", entry)


if __name__ == "__main__":
    unittest.main()
