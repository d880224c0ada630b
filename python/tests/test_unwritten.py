"""Memory that is never written is not a result."""

import tempfile
import unittest
import warnings
from pathlib import Path

import torch
from compare import read
from torch import nn
from torch.nn import functional

import samebits_ledger

REASON = "some of it was never written"


class Unwritten(unittest.TestCase):
    """Tensors that have a digest, and tensors that have none."""

    def setUp(self):
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.a = Path(folder.name, "a.jsonl")

    def last(self, run):
        """The reasons of the last operation's inputs."""
        with samebits_ledger.record(self.a), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
        *_, last, _ = read(self.a)
        return [tensor.get("reason") for tensor in last["inputs"]]

    def test_elements_are_followed(self):
        def partly(make):
            def run():
                x = make()
                x[:2] = 1
                x.clone()

            return run

        makers = (
            lambda: torch.empty(4),
            lambda: torch.empty_like(torch.ones(4)),
            lambda: torch.empty_strided((4,), (2,)),
            lambda: torch.ones(2).new_empty(4),
            lambda: torch.ones(2).new_empty_strided((4,), (1,)),
            lambda: torch.ones(2).resize_(4),
            lambda: torch.ones(2).resize_as_(torch.ones(4)),
        )
        for make in makers:
            self.assertEqual(self.last(partly(make)), [REASON])

        def whole():
            x = torch.empty(2, 3)
            x[:, 0] = 1
            x[0, 1:].copy_(torch.ones(2))
            torch.add(torch.ones(2), 1, out=x[1, 1:])
            x.clone()

        self.assertEqual(self.last(whole), [None])

        def a_part_of_it():
            x = torch.empty(4)
            x[:2] = 1
            x[:2].clone()

        self.assertEqual(self.last(a_part_of_it), [None])

    def test_copies_of_nothing_are_nothing(self):
        def run():
            x = torch.empty(2, 2)
            x[0] = 1
            x[:, 0] = torch.ones(2)
            y = torch.empty(2, 2)
            y.copy_(x)
            y.clone()

        self.assertEqual(self.last(run), [REASON])

        def padded():
            functional.pad(torch.ones(1, 1, 2, 2), (1, 1, 1, 1), mode="circular").clone()

        self.assertEqual(self.last(padded), [None])

    def test_what_others_write_has_a_digest(self):
        def run():
            x = torch.empty(3)
            x.numpy()[:] = 1
            x.clone()

        self.assertEqual(self.last(run), [None])

    def test_memory_is_followed_as_long_as_it_lives(self):
        def run():
            for _ in range(2000):
                x = torch.empty(64)
                x[:1] = 1
                del x
                torch.ones(64).clone()

        with samebits_ledger.record(self.a) as recorder:
            run()
            self.assertLess(len(recorder._unwritten._storages), 600)
        records = read(self.a)
        self.assertFalse(any("reason" in t for r in records for t in r.get("inputs", [])))

    def test_scratch_memory_is_left_out(self):
        def run():
            probabilities = torch.randn(6, 2, 5, requires_grad=True).log_softmax(2)
            targets = torch.tensor([[1, 2], [3, 0]])
            lengths = torch.tensor([6, 6]), torch.tensor([2, 1])
            loss = functional.ctc_loss(probabilities, targets, *lengths)
            x = torch.randn(4, requires_grad=True)
            loss += functional.rrelu(x, training=True).sum() + nn.RReLU().eval()(x).sum()
            loss.backward()

        with samebits_ledger.record(self.a):
            run()
        for record in read(self.a):
            names = [t.get("name") for t in record.get("inputs", []) + record.get("outputs", [])]
            self.assertFalse({"log_alpha", "noise"} & set(names), record)
            if record.get("name", "").startswith("aten._ctc_loss."):
                self.assertEqual(len(record["outputs"]), 1)


if __name__ == "__main__":
    unittest.main()
