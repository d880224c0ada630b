"""PyTorch's operator test database under the recorder, twice, with other memory.

`SAMEBITS_OPERATORS=all` runs all operators, in about half an hour; else those that left memory
unwritten run, and some others.
"""

import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from compare import read

# As in `operators.py`, which needs the database.
UNSTEADY = ("linalg.lstsq",)

ALL = os.environ.get("SAMEBITS_OPERATORS") == "all"
SOME = (
    "cumsum",
    "empty_like",
    "linalg.pinv",
    "masked_scatter",
    "nn.functional.ctc_loss",
    "nn.functional.pad",
    "nn.functional.rrelu",
    "resize_",
)


def differences(a, b):
    """Yields the records that differ between two ledgers of equal runs, and their parts that do."""
    for x, y in itertools.zip_longest(a[1:], b[1:], fillvalue={}):
        if x != y:
            parts = [part for part in x if x[part] != y.get(part)]
            yield f"{x.get('name', x.get('event'))}: {', '.join(parts)}"


@unittest.skipUnless(sys.platform == "linux", "the C library does not fill memory")
@unittest.skipUnless(importlib.util.find_spec("expecttest"), "the database needs expecttest")
class Operators(unittest.TestCase):
    """No operator fails, changes or varies when it is recorded."""

    maxDiff = None

    def test_equal_runs_are_equal(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = []
            for byte in ("1", "170"):
                Path(folder, byte).mkdir()
                environment = os.environ | {
                    "MALLOC_PERTURB_": byte,
                    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
                    "PYTHONHASHSEED": "0",
                    "PYTHONPATH": os.pathsep.join((os.path.dirname(__file__), *sys.path)),
                }
                script = Path(__file__).with_name("operators.py")
                names = () if ALL else SOME
                command = [sys.executable, script, Path(folder, byte), *names]
                runs.append(
                    subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
                )
            faults = [process.communicate()[0] for process in runs]
            self.assertEqual([process.returncode for process in runs], [0, 0])
            self.assertEqual(faults, ["", ""])
            ledgers = sorted(path.name for path in Path(folder, "1").iterdir())
            self.assertGreater(len(ledgers), 1500 if ALL else 20)
            for name in ledgers:
                with self.subTest(name):
                    a, b = (read(Path(folder, byte, name)) for byte in ("1", "170"))
                    if not name.startswith(UNSTEADY):
                        self.assertEqual(list(differences(a, b)), [])


if __name__ == "__main__":
    unittest.main()
