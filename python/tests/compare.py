"""A reference reader and comparer of ledgers: strict, short and slow."""

import json
import os
import shutil
import subprocess
from typing import NamedTuple

# The program `samebits`, if there is one: its report on two ledgers is then tested, too.
PROGRAM = os.environ.get("SAMEBITS_BIN") or shutil.which("samebits")


class Difference(NamedTuple):
    """The first difference of two ledgers, and its kind."""

    kind: str
    a: dict | None
    b: dict | None


def read(path):
    """Returns the records of a ledger. Rejects everything that the schema does not allow."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    assert lines.pop() == "", f"{path}: the last line is cut off"
    records = [
        json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse) for line in lines
    ]
    assert records[0]["event"] == "header"
    assert [record["sequence"] for record in records] == list(range(len(records)))
    keys = [key(record) for record in records]
    assert len(set(keys)) == len(keys), "two records have one key"
    if records[-1]["event"] == "end":
        assert records[-1]["records"] == len(records) - 1
    return records


def key(record):
    """Returns the unique key of a record."""
    fields = ("event", "step", "microbatch", "phase", "module", "name", "occurrence")
    return tuple(record.get(field) for field in fields)


def first_difference(a, b):
    """Returns the first difference of two runs after their headers, or None.

    The kinds: `missing` if the next records are of different things, `generator` if equal inputs
    meet another position of the generator, `parameters`, `inputs`, `outputs`, and else the event.
    """
    for x, y in zip(a[1:], b[1:], strict=False):
        if key(x) != key(y):
            return Difference("missing", x, y)
        x_rest, y_rest = ({k: v for k, v in r.items() if k != "sequence"} for r in (x, y))
        if x_rest == y_rest:
            continue
        if x["event"] not in ("op", "layer"):
            return Difference(x["event"], x, y)
        if x["inputs"] != y["inputs"]:
            return Difference("inputs", x, y)
        if x["parameters"] != y["parameters"]:
            return Difference("parameters", x, y)
        if (x["generator"] or {}).get("before") != (y["generator"] or {}).get("before"):
            return Difference("generator", x, y)
        if x["outputs"] != y["outputs"]:
            return Difference("outputs", x, y)
    return None if len(a) == len(b) else Difference("missing", None, None)


def program_difference(a, b):
    """Returns the report of `samebits diff`: the cause, and the first record's sequence in `a`."""
    command = [PROGRAM, "diff", "--json", a, b]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert report["equal"] == (done.returncode == 0)
    if report["equal"]:
        return None
    return report["cause"], report["ranks"][0]["first"]["a"]["sequence"]


def _unique(pairs):
    assert len(dict(pairs)) == len(pairs), f"a key twice in {pairs}"
    return dict(pairs)


def _refuse(constant):
    raise ValueError(f"JSON has no {constant}")
