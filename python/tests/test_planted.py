"""Twenty random programs, each with a planted difference, which the ledgers must identify."""

import random
import tempfile
import unittest
from pathlib import Path

import torch
from compare import PROGRAM, first_difference, program_difference, read
from programs import STEPS, FlipOutput, Program, flip_bit

from samebits_ledger._tensors import digest

CASES = 20

# The names of `samebits diff` for the kinds of difference that the tests plant.
CAUSES = {
    "outputs": ("operation",),
    "inputs": ("input", "parameters"),
    "data": ("data",),
    "generator": ("generator",),
}


class Planted(unittest.TestCase):
    """Every kind of difference, in turn."""

    def setUp(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.a = Path(folder.name, "a.jsonl")
        self.b = Path(folder.name, "b.jsonl")

    def test_equal_programs_have_equal_ledgers(self):
        for case in range(CASES):
            with self.subTest(case=case):
                Program(case).train(self.a)
                Program(case).train(self.b)
                self.assertEqual(self.a.read_bytes(), self.b.read_bytes())
                if PROGRAM:
                    self.assertIsNone(program_difference(self.a, self.b))

    def test_planted_differences_are_named(self):
        kinds = (self.output, self.output, self.weight, self.batch, self.seed)
        for case in range(CASES):
            with self.subTest(case=case, kind=kinds[case % 5].__name__):
                Program(case).train(self.a)
                self.recorded = read(self.a)
                kind, record = kinds[case % 5](case, random.Random(case))
                found = first_difference(self.recorded, read(self.b))
                self.assertEqual((found.kind, found.a), (kind, record))
                if PROGRAM:
                    cause, sequence = program_difference(self.a, self.b)
                    self.assertEqual(sequence, record["sequence"])
                    self.assertIn(cause, CAUSES[kind])

    def output(self, case, choose):
        """One bit of an operation's result."""
        ops = [r for r in self.recorded if r["event"] == "op" and _has_floats(r)]
        record = choose.choice(ops)
        calls = [r for r in self.recorded if r["event"] == "op" and r["name"] == record["name"]]
        with FlipOutput(record["name"], calls.index(record), choose.randrange(1000)):
            Program(case).train(self.b)
        return "outputs", record

    def weight(self, case, choose):
        """One bit of one weight before the first step."""
        program = Program(case)
        name, weight = choose.choice(list(program.model.named_parameters()))
        read_as = {digest(weight.detach()), digest(weight.detach().t())}
        flip_bit(weight, choose.randrange(1000))
        program.train(self.b)
        ops = [r for r in self.recorded if r["event"] == "op"]
        record = next(r for r in ops if read_as & {t["digest"] for t in r["inputs"]})
        self.assertEqual(record["module"], name.rpartition(".")[0])
        return "inputs", record

    def batch(self, case, choose):
        """One element of one batch."""
        program = Program(case)
        step = choose.choice(STEPS)
        flip_bit(program.batches[step][0], choose.randrange(1000))
        program.train(self.b)
        return "data", next(r for r in self.recorded if r["event"] == "data" and r["step"] == step)

    def seed(self, case, choose):
        """The seed of the training's draws."""
        program = Program(case)
        program.seed += 1 + choose.randrange(1000)
        program.train(self.b)
        return "generator", next(r for r in self.recorded if r.get("generator"))


def _has_floats(record):
    return any(t["dtype"] == "f32" and 0 not in t["shape"] for t in record["outputs"])


if __name__ == "__main__":
    unittest.main()
