"""The output of a recorder, and its absence of effects on the program."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
from pathlib import Path

import torch
from compare import first_difference, read
from programs import MODELS, STEPS, Program
from torch import distributed, nn
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

import samebits_ledger
from samebits_ledger._tensors import digest


class CountOperations(TorchDispatchMode):
    """A mode that counts the operations it sees."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


class Transformed(Dataset):
    """Computes samples with operations, in a worker's process if there are workers."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index)) * 2


class Sparse:
    """A sparse tensor, made by operations when it is unpickled."""

    def __init__(self, x):
        self.x = x

    def __reduce__(self):
        return Sparse.of, (self.x.to_dense(),)

    @staticmethod
    def of(dense):
        return Sparse((dense * 2).to_sparse())


class Uneven(Transformed):
    """Samples that take different times."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(random.SystemRandom().random() * 0.004)
        return super().__getitem__(index)

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def collated(samples):
    """A batch with a tensor and an object."""
    x = torch.stack(samples)
    return x, Sparse(x.to_sparse())


class WithFolder(unittest.TestCase):
    """A folder for the ledgers, one thread, and the same seed for every test."""

    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.a = self.folder / "a.jsonl"
        self.b = self.folder / "b.jsonl"

    def ops(self, path=None, event="op"):
        return [record for record in read(path or self.a) if record["event"] == event]

    def names(self):
        return [record["name"] for record in self.ops()]


class Kept(WithFolder):
    """Tensors of some steps are kept whole."""

    def train(self, path, planted=False):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batches = torch.arange(20.0).reshape(5, 4).repeat(6, 1, 1)
        if planted:
            batches[3, 1, 2] = torch.nextafter(batches[3, 1, 2], batches[3, 1, 3])
        with samebits_ledger.record(path, keep="around:3", digests="sampled"):
            for x in batches:
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    def test_bytes_of_the_steps_around(self):
        self.train(self.a)
        kept = set()
        for record in self.ops():
            for tensor in record["inputs"] + record["outputs"]:
                self.assertEqual("file" in tensor, record["step"] in (2, 3, 4))
                if "file" in tensor:
                    kept.add(tensor["file"])
                    size = {"f32": 4, "i64": 8}[tensor["dtype"]]
                    bytes_ = (self.folder / tensor["file"]).read_bytes()
                    self.assertEqual(len(bytes_), size * torch.Size(tensor["shape"]).numel())
        x = torch.arange(20.0).reshape(5, 4).numpy().tobytes()
        self.assertTrue(any((self.folder / file).read_bytes() == x for file in kept))

    def test_diff_shows_the_elements(self):
        program = shutil.which("samebits")
        if program is None:
            self.skipTest("there is no samebits program")
        self.train(self.a)
        self.train(self.b, planted=True)
        found = subprocess.run([program, "diff", self.a, self.b], capture_output=True, text=True)
        self.assertEqual(found.returncode, 1, found.stderr)
        self.assertIn("1 of 20 elements of f32 differ, by up to 1 ulp", found.stdout)
        self.assertIn("at [1, 2]: 6.0", found.stdout)

    def test_other_texts_are_refused(self):
        for keep in ("around", "around:", "around:-1", "3"):
            with self.assertRaisesRegex(ValueError, "record: keep is 'around:STEP'"):
                samebits_ledger.record(self.a, keep=keep)


class Undisturbed(WithFolder):
    """The program computes and draws the same numbers as without a recorder."""

    def test_weights_and_generator(self):
        def outcome(case, **options):
            program = Program(case)
            program.train(**options)
            weights = [digest(p.detach()) for p in program.model.parameters()]
            return [*weights, digest(torch.get_rng_state())]

        for case in range(8):
            plain = outcome(case)
            for detail in ("op", "layer", "step"):
                for digests in ("full", "sampled"):
                    options = {"path": self.a, "detail": detail, "digests": digests}
                    with self.subTest(case=case, **options):
                        self.assertEqual(outcome(case, **options), plain)
                        header, *_, end = read(self.a)
                        self.assertEqual(header["detail"], detail)
                        self.assertEqual(header["digests"], digests)
                        self.assertEqual(end["event"], "end")

    def test_other_modes_see_only_the_program(self):
        with CountOperations() as plain:
            Program(0).train()
        with CountOperations() as recorded:
            Program(0).train(self.a)
        self.assertEqual(recorded.count, plain.count)

    def test_nothing_stays_behind(self):
        with samebits_ledger.record(self.a):
            with self.assertRaisesRegex(RuntimeError, "do not nest"):
                samebits_ledger.record(self.b).__enter__()
            torch.ones(2) + 1
        size = self.a.stat().st_size
        Program(0).train()
        self.assertEqual(self.a.stat().st_size, size)
        self.assertEqual(_get_current_dispatch_mode_stack(), [])
        self.assertFalse(self.b.exists())

    def test_threads_and_workers_are_not_recorded(self):
        def elsewhere():
            nn.Linear(2, 2)(torch.ones(1, 2))

        with samebits_ledger.record(self.a):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            loader = DataLoader(Transformed(), 4, num_workers=2, multiprocessing_context="fork")
            batches = list(samebits_ledger.watch(loader))
        self.assertEqual(len(batches), 2)
        self.assertEqual(len(self.ops(event="data")), 2)
        self.assertEqual(self.ops(event="layer"), [])
        self.assertEqual({r["phase"] for r in self.ops()}, {"data"})
        self.assertNotIn("aten.full.default", self.names())

    def test_batches_of_workers_are_recorded_in_their_order(self):
        def train(path, views):
            torch.manual_seed(0)
            model = nn.Linear(4, 2)
            with samebits_ledger.record(path, views=views):
                loader = DataLoader(
                    Uneven(),
                    4,
                    True,
                    num_workers=2,
                    multiprocessing_context="fork",
                    collate_fn=collated,
                )
                for x, sparse in samebits_ledger.watch(loader):
                    (model(x).sum() + sparse.x.sum()).backward()

        for views in (False, True):
            train(self.a, views)
            for _ in range(4):
                train(self.b, views)
                self.assertEqual(self.a.read_bytes(), self.b.read_bytes())
            self.assertEqual(len(self.ops(event="data")), 12)
            self.assertIn("aten.randperm.generator", self.names())

    def test_uninitialised_memory_is_not_recorded(self):
        script = (
            "import sys; from programs import Program; import torch; torch.set_num_threads(1)\n"
            "for case in range(12): Program(case).train(f'{sys.argv[1]}/{case}.jsonl')"
        )
        for byte in ("1", "170"):
            environment = os.environ | {"MALLOC_PERTURB_": byte, "PYTHONHASHSEED": "0"}
            environment["PYTHONPATH"] = os.pathsep.join((os.path.dirname(__file__), *sys.path))
            subprocess.run(
                [sys.executable, "-c", script, self.folder / byte], env=environment, check=True
            )
        for case in range(12):
            with self.subTest(case=case):
                a, b = (read(self.folder / byte / f"{case}.jsonl") for byte in ("1", "170"))
                self.assertIsNone(first_difference(a, b))

    def test_compiled_modules_are_layers(self):
        model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager")
        x = torch.ones(2, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with samebits_ledger.record(self.a, detail="layer"):
                model(x)
        self.assertIn("OptimizedModule", [r["name"] for r in self.ops(event="layer")])


class Records(WithFolder):
    """The content of the records."""

    def test_inputs_are_those_before_the_operation(self):
        x = torch.arange(4.0)
        before = digest(x)
        with samebits_ledger.record(self.a):
            x.mul_(float("inf"))
            torch.add(x, 1, out=torch.empty(4))
            torch.empty(3).fill_(2)
        multiply, add, fill = self.ops()
        self.assertEqual([t["digest"] for t in multiply["inputs"]], [before])
        self.assertEqual([t["digest"] for t in multiply["outputs"]], [digest(x)])
        self.assertEqual(multiply["parameters"], {"other": "inf"})
        self.assertEqual([t["name"] for t in add["inputs"]], ["self"])
        self.assertEqual([t["name"] for t in add["outputs"]], ["out"])
        self.assertEqual((fill["inputs"], len(fill["outputs"])), ([], 1))

    def test_running_statistics_are_outputs(self):
        norm = nn.BatchNorm1d(3)
        with samebits_ledger.record(self.a):
            norm(torch.randn(5, 3))
        record = next(r for r in self.ops() if "batch_norm" in r["name"])
        outputs = {t.get("name"): t["digest"] for t in record["outputs"]}
        self.assertEqual(outputs["running_mean"], digest(norm.running_mean))
        self.assertEqual(outputs["running_var"], digest(norm.running_var))

    def test_phases_modules_and_sites(self):
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with samebits_ledger.record(self.a) as recorder:
            loss = model(torch.ones(2, 4)).square().sum()
            recorder.loss(loss)
            loss.backward()
            optimizer.step()
            torch.zeros(1)
        found = {(r["name"], r["phase"]): r["module"] for r in self.ops()}
        self.assertEqual(found["aten.addmm.default", "forward"], "0")
        self.assertEqual(found["aten.sum.default", "forward"], "")
        self.assertEqual(found["aten.threshold_backward.default", "backward"], "1")
        self.assertEqual(found["aten.mm.default", "backward"], "0")
        self.assertEqual(found["aten.add_.Tensor", "optimizer"], "")
        self.assertEqual(found["aten.zeros.default", "other"], "")
        self.assertTrue(all("test_recorder.py:" in r["site"] for r in self.ops()))
        (step,) = self.ops(event="step")
        self.assertEqual(step["loss"]["digest"], digest(loss.detach()))
        for name, parameter in model.named_parameters():
            self.assertEqual(step["parameters"][name]["digest"], digest(parameter.detach()))
            self.assertEqual(step["gradients"][name]["digest"], digest(parameter.grad))

    def test_recomputation_belongs_to_the_backward_pass(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        with samebits_ledger.record(self.a, modules={"net": model}):
            checkpoint(model, torch.ones(2, 4), use_reentrant=False).sum().backward()
        found = [r["phase"] for r in self.ops() if r["name"] == "aten.addmm.default"]
        self.assertEqual(found, ["forward", "backward"])
        self.assertEqual({r["module"] for r in self.ops(event="layer")}, {"net", "net.0", "net.1"})

    def test_generators(self):
        own = torch.Generator().manual_seed(3)
        with samebits_ledger.record(self.a):
            torch.rand(2)
            torch.rand(2, generator=own)
            torch.rand(2)
        first, other, second = (r["generator"] for r in self.ops())
        self.assertEqual(first["after"], second["before"])
        self.assertNotEqual(first["before"], first["after"])
        self.assertEqual(other["after"], {"digest": digest(own.get_state())})

    def test_steps_and_microbatches(self):
        weight = torch.ones(2, requires_grad=True)
        data = [torch.ones(2) * i for i in range(4)]
        with samebits_ledger.record(self.a, steps="explicit", first_step=5) as recorder:
            for index, x in enumerate(samebits_ledger.watch(data, indices=lambda x: x.long())):
                (weight * x).sum().backward()
                if index % 2 == 1:
                    recorder.step(loss=weight.sum())
        batches = [(r["step"], r["microbatch"]) for r in self.ops(event="data")]
        self.assertEqual(batches, [(5, 0), (5, 1), (6, 0), (6, 1)])
        self.assertEqual(self.ops(event="data")[1]["indices"]["dtype"], "i64")
        with (
            samebits_ledger.record(self.b) as recorder,
            self.assertRaisesRegex(RuntimeError, "explicit"),
        ):
            recorder.step()

    def test_views_only_on_request(self):
        for views, expected in ((False, []), (True, ["aten.t.default", "aten.view.default"])):
            x = torch.ones(2, 3)
            with samebits_ledger.record(self.a, views=views):
                x.t()
                x.view(6)
            self.assertEqual(self.names(), expected)

    def test_tensors_made_of_tensors(self):
        pair = TwoTensor(torch.ones(2), torch.zeros(2))
        with samebits_ledger.record(self.a):
            pair * 2
        self.assertEqual(self.names(), ["aten.mul.Tensor"] * 2)

    @unittest.skipUnless(distributed.is_available(), "PyTorch was built without collectives")
    def test_collectives_have_inputs_alone(self):
        store = f"file://{self.folder}/store"
        distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        self.addCleanup(distributed.destroy_process_group)
        x = torch.ones(3)
        with samebits_ledger.record(self.a):
            distributed.all_reduce(x)
            distributed.all_gather_into_tensor(torch.empty(3), x)
        reduce, gather = self.ops()
        self.assertEqual((len(reduce["inputs"]), reduce["outputs"]), (1, []))
        self.assertEqual([t["name"] for t in gather["inputs"]], ["input_tensor"])

    def test_ranks(self):
        environment = {"RANK": "1", "WORLD_SIZE": "2"}
        with unittest.mock.patch.dict(os.environ, environment):
            with samebits_ledger.record(self.folder / "run"):
                torch.ones(1)
            with self.assertRaisesRegex(ValueError, "2 ranks need a folder"):
                samebits_ledger.record(self.a).__enter__()
        header = read(self.folder / "run/rank_000001.jsonl")[0]
        self.assertEqual((header["rank"], header["world_size"]), (1, 2))

    def test_arguments(self):
        for options in ({"detail": "ops"}, {"digests": "some"}, {"steps": "each"}):
            with self.subTest(options), self.assertRaisesRegex(ValueError, "^record: "):
                samebits_ledger.record(self.a, **options)

    def test_a_crash_leaves_a_readable_prefix(self):
        with self.assertRaises(ZeroDivisionError), samebits_ledger.record(self.a):
            nn.Linear(2, 2)(torch.ones(1, 2))
            1 / 0  # noqa: B018
        self.assertEqual(read(self.a)[-1]["name"], "Linear")
        script = (
            "import os, sys, torch, samebits_ledger\n"
            "with samebits_ledger.record(sys.argv[1]): torch.ones(2); os._exit(1)"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", script, self.b], env=environment, check=False)
        self.assertEqual(read(self.b)[-1]["name"], "aten.ones.default")


class Found(WithFolder):
    """Differences between real runs."""

    def difference(self):
        return first_difference(read(self.a), read(self.b))

    def test_threads(self):
        x = torch.randn(4096, 64)
        for path, threads in ((self.a, 1), (self.b, 2)):
            torch.set_num_threads(threads)
            with samebits_ledger.record(path):
                y = functional.relu(x)
                functional.batch_norm(y, None, None, training=True)
        headers = [read(path)[0]["environment"]["threads"] for path in (self.a, self.b)]
        self.assertEqual(headers, ["1", "2"])
        found = self.difference()
        self.assertEqual(
            (found.kind, found.a["name"]), ("outputs", "aten.native_batch_norm.default")
        )

    def test_sums_of_duplicates_by_two_threads(self):
        slots = torch.randint(0, 10, (1_000_000,))
        x = torch.randn(1_000_000)
        torch.set_num_threads(2)
        # Two threads add atomically; the scheduler chooses their order.
        for _ in range(20):
            for path in (self.a, self.b):
                with samebits_ledger.record(path):
                    torch.zeros(10).index_put_((slots,), x, accumulate=True)
            found = self.difference()
            if found is not None:
                name = found.a["name"]
                self.assertEqual((found.kind, name), ("outputs", "aten.index_put_.default"))
                return
        self.skipTest("the threads never met")

    def test_order_of_the_data(self):
        for path, seed in ((self.a, 1), (self.b, 2)):
            order = torch.Generator().manual_seed(seed)
            data = TensorDataset(torch.arange(8.0))
            loader = DataLoader(data, 4, shuffle=True, generator=order)
            with samebits_ledger.record(path):
                list(samebits_ledger.watch(loader))
        found = self.difference()
        self.assertEqual((found.kind, found.a["phase"]), ("generator", "data"))
        with samebits_ledger.record(self.a, detail="step"):
            list(samebits_ledger.watch([1 * torch.ones(2), 2 * torch.ones(2)]))
        with samebits_ledger.record(self.b, detail="step"):
            list(samebits_ledger.watch([2 * torch.ones(2), 1 * torch.ones(2)]))
        self.assertEqual(self.difference().kind, "data")

    def test_resume(self):
        case = next(c for c in range(99) if isinstance(Program(c).optimizer, torch.optim.AdamW))

        def resumed(restore_optimizer):
            first = Program(case)
            first.train(steps=STEPS[:2])
            second = Program(case)
            second.model.load_state_dict(first.model.state_dict())
            if restore_optimizer:
                second.optimizer.load_state_dict(first.optimizer.state_dict())
            second.train(self.b, steps=STEPS[2:])
            return read(self.b)

        whole = Program(case)
        whole.train(steps=STEPS[:2])
        whole.train(self.a, steps=STEPS[2:])
        expected = read(self.a)
        self.assertIsNone(first_difference(expected, resumed(restore_optimizer=True)))
        found = first_difference(expected, resumed(restore_optimizer=False))
        self.assertEqual(found.a["phase"], "optimizer")


class AllModels(unittest.TestCase):
    """The cases above see every model."""

    def test_cases_cover_the_models(self):
        kinds = {type(Program(case).model) for case in range(12)}
        self.assertEqual(len(kinds), len({*MODELS[2:], nn.Sequential}))


if __name__ == "__main__":
    unittest.main()
