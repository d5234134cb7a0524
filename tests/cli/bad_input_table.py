"""Bad inputs as a table: what is typed or written, and what the message must name."""

import datetime
import itertools
import os
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCENARIO = """\
name: small
rounds: 2
problem: {name: least-squares, dataset: own.csv}
clients: {delay: {name: constant, mean_s: 1.0}}
algorithms:
  - {name: fedavg, local: {steps: 2, batch: full, lr: 0.1}}
executor: serial
"""
OWN = "client,a,b,y\n0,1.0,2.0,1.0\n1,0.5,1.5,2.0\n2,1.0,1.0,1.0\n"

HUGE = "9" * 20
MANY = "9" * 5000

# -- settings ----------------------------------------------------------------------------------

WHOLE = (
    "rounds", "evaluate.every", "evaluate.clients", "participation.cohort", "clients.count",
    "executor.clients_per_actor", "algorithms.0.local.steps", "algorithms.0.local.batch",
)  # fmt: skip
REAL = (
    "stop.time_s", "stop.loss_gap", "stop.accuracy", "stop.loss_change", "stop.model_change",
    "checkpoint.every_s", "participation.over_select", "participation.deadline_s",
    "clients.delay.mean_s", "clients.stragglers.fraction", "clients.stragglers.slowdown",
    "clients.network.down_mbps", "clients.network.up_mbps", "clients.network.latency_s",
    "algorithms.0.local.lr", "algorithms.0.local.mu", "algorithms.0.local.weight_decay",
    "algorithms.0.local.clip_norm", "algorithms.0.server_lr",
    "problem.l2", "clock.scale",
)  # fmt: skip
TRUTH = (
    "evaluate.gap", "evaluate.left_out", "problem.intercept",
)  # fmt: skip
TEXT = ("name", "description", "algorithms.0.label")
TEXTS = ("problem.target",)
CHOICE = (
    "dtype", "clock.name", "executor.name", "algorithms.0.local.sampling", "algorithms.0.weights",
    "problem.weighting", "problem.divide_by", "problem.l2_per",
)  # fmt: skip
PLUGIN = (
    "partition", "clients.delay", "clients.availability", "participation.select", "topology",
    "problem.dataset", "algorithms.0.participation.select",
)  # fmt: skip
MAPPING = ("stop", "evaluate", "checkpoint", "clients", "participation", "clients.network")
LIST = ("seeds", "algorithms", "clients.groups", "grid.rounds")

VALUES = {
    WHOLE: ("x", "2.5", "-1", "[1]", "{}", "true", "1.0e+300", HUGE, ".nan"),
    REAL: ("x", "[1]", "{a: 1}", "true", ".nan", "-.inf", "-1"),
    TRUTH: ("maybe", "3", "[true]", "{}"),
    TEXT: ("3", "[a]", "{a: b}", '"a\\0b"', "x" * 5000),
    TEXTS: ("3", "[]", "[3]", "{a: b}", '"a\\0b"', "x" * 5000),
    CHOICE: ("other", "3", "[x]", ":b:"),
    PLUGIN: ("nothing-like-it", "3", "[x]", "{name: 3}", "..:x", "nowhere:Thing", "x" * 3000),
    MAPPING: ("3", "text", "[1]", "{nothing-like-it: 1}"),
    LIST: ("3", "{a: 1}", "text"),
}


def settings():
    """Yield a name, the overrides, and what the message must name, for every setting and value."""
    for keys, values in VALUES.items():
        for key, value in itertools.product(keys, values):
            yield f"{key}={value[:20]}", [f"{key}={value}"], key.removesuffix(".name")


# -- overrides ---------------------------------------------------------------------------------

OVERRIDES = {
    "no value": (["rounds"], "--set rounds: found no key=value"),
    "no key": (["=3"], "--set =3: found no key=value"),
    "2,000 parts": (["a." * 2000 + "b=1"], "the key has 2,001 parts"),
    "2,000 parts that begin well": (["clients.delay." + "a." * 2000 + "b=1"], "2,003 parts"),
    "a long key": (["x" * 100_000 + "=1"], "found a text of 100,000 characters"),
    "a long value": (["name=" + "x" * 100_000], "name: found a text of 100,000 characters"),
    "nested brackets": (["name=" + "[" * 1000 + "]" * 1000], "more than 50 deep"),
    "very nested brackets": (["name=" + "[" * 50_000], "more than 50 deep"),
    "half of a character": (["name=a\udc80"], "half of a character"),
    "no whole number": (["name=!!int abc"], "'abc' is not a valid int"),
    "5,000 digits": ([f"rounds={MANY}"], "a number of 5,000 characters"),
    "a power of 5,000 digits": ([f"rounds={MANY}^{MANY}"], "a number of 10,001 characters"),
    "a power that overflows": (["rounds=9^99999"], "is too large or too small a number"),
    "an index that is not": (["algorithms.7.local.lr=1"], "found index 7 in a list of 1"),
    "an index of many digits": ([f"algorithms.{MANY}.local.lr=1"], "in a list of 1"),
    "a label that is not": (["algorithms.fedexp.lr=1"], "give an index or *; known: fedavg"),
    "an index of other digits": (["algorithms.²=1"], "give an index or *"),
    "below a number": (["rounds.a.b=1"], "rounds"),
    "a grid in a grid": (["grid={grid: [{rounds: [1, 2]}]}"], "a grid cannot sweep a grid"),
    "a grid in a grid, dotted": (["grid={grid.rounds: [[1, 2]]}"], "a grid cannot sweep a grid"),
    "a key of a grid that another replaces": (
        ["grid={algorithms.*.local.lr: [0.5], algorithms.*.local: [{steps: 1}, {steps: 2}]}"],
        "grid: 'algorithms.*.local' replaces 'algorithms.*.local.lr', which has no effect then",
    ),
    "a case that the grid replaces": (
        ["cases={a: {rounds: 3}, b: {evaluate.every: 2}}", "grid={rounds: [1, 2]}"],
        "cases.a: 'rounds' of the grid replaces 'rounds', which has no effect; leave",
    ),
    "a value of a key that a grid sweeps": (
        ["grid={algorithms.*.local.lr: [0.1, 0.2]}", "algorithms.0.local.lr=0.7"],
        "algorithms.0.local.lr: 'grid.algorithms.*.local.lr' replaces it; change that, or give",
    ),
    "an executor in a grid": (["grid={executor: [serial, ray]}"], "that of the whole study; move"),
    "a label that is the place of another": (
        ["algorithms=[{name: fedavg, label: '1'}, fedexp]", "grid={rounds: [1, 2]}"],
        "algorithms.0.label: found '1', which is the place of another algorithm in dotted keys",
    ),
    "equal settings": (["grid={rounds: [1, 1]}"], "grid.rounds: the settings 'rounds=1' and"),
    "equal settings in other words": (
        ["grid={clients.delay: [constant, {name: constant}]}"],
        "are the same; give each value once",
    ),
    "too many settings": (
        [f"grid={{rounds: {list(range(1, 200))}, evaluate.every: {list(range(1, 200))}}}"],
        "39,601 settings, 1 algorithms and 1 seeds are more than 10,000 runs",
    ),
    "too many seeds": ([f"seeds={list(range(10_001))}"], "seeds: found 10,001 seeds"),
    "seeds that overflow": ([f"seeds=[{2**63}]"], "it should be at most 9007199254740991"),
    "negative seeds": (["seeds=[-1]"], "it should be at least 0"),
    "one seed twice": (["seeds=[1, 1]"], "give each seed once"),
    "no algorithm": (["algorithms=[]"], "algorithms: found []"),
    "local.mu one level too high": (["algorithms.0.mu=1"], "'mu'; write it as local.mu"),
    "endless local steps": (["algorithms.0.local.steps=2147483647"], "more than 100,000,000"),
    "endless passes": (["algorithms.0.local={epochs: 1.0e+300}"], "more than 100,000,000"),
    "steps that take no time": (
        ["algorithms.0.local={time_s: 3}", "clients.delay.mean_s=1.0e-12"],
        "comes to 3e+12 local steps",
    ),
    "fine-tuning by the clock": (
        ["algorithms=[{name: fedavg-finetuned, tune: {time_s: 3}}]"],
        "evaluation takes no simulated time",
    ),
    "two ways to say how long": (["algorithms.0.local.epochs=1"], "found steps and epochs"),
    "a group of nobody": (["clients.groups=[{name: a}]"], "found none of ids, count and fraction"),
    "an id of 20 digits": ([f"clients.groups=[{{ids: [{HUGE}]}}]"], "clients.groups.0.ids"),
    "nothing ends the run": (["rounds=null"], "rounds: is missing; give rounds"),
    "no dataset": (["problem.dataset=null"], "problem.dataset: is missing"),
    "a line from right to left": (
        ["problem.dataset={name: line, low: 1, high: 0}"],
        "problem.dataset.high: found low 1 above high 0",
    ),
    "data with a first model of its own": (
        ["problem.dataset=quadratic", "clients.count=null"],
        "problem.init: the data comes with a first model of 5 numbers",
    ),
    "a setting of a circle": (
        ["problem={name: circle, intercept: true, dataset: disc}"],
        "problem.intercept: a circle has none",
    ),
    "mobile clients that never rest": (
        ["topology={name: geometric, range_m: 1.0e+300, every_s: 1.0e+300}"],
        "topology.every_s",
    ),
    "features without number": (
        ["problem.dataset={name: linear, features: 2147483647, samples: 5}", "clients.count=3"],
        "problem.dataset (linear): the 4 rows of client 0, with 2,147,483,648 features and",
    ),
    "samples without number": (
        ["problem.dataset={name: linear, features: 2, samples: 2147483647}", "clients.count=3"],
        "problem.dataset (linear): the 1,717,986,918 rows of client 0, with 3 features and",
    ),
    "classes without number": (
        ["problem={name: softmax-regression, dataset: {name: synthetic, classes: 2147483647, "
         "samples: 5}}", "clients.count=3"],
        "with 61 features and 2,147,483,647 outputs, take about",
    ),
    "hidden units without number": (
        ["problem={name: mlp, hidden: [2147483647], dataset: {name: synthetic, samples: 5}}",
         "clients.count=3"],
        "problem: copies of 152,471,338,947 parameters take about 3.3 TiB of memory, but",
    ),
    "sizes beyond int64": (
        ["problem.dataset={name: linear, samples: {sigma: 500}}", "clients.count=9"],
        "problem.dataset.samples: found mean 4 and sigma 500, which make a client with more than",
    ),
    "sizes beyond float64": (
        ["problem.dataset={name: linear, samples: {sigma: 1.0e+308}}", "clients.count=9"],
        "found mean 4 and sigma 1e+308, which make a client with more than 2,147,483,647 rows",
    ),
    "shares beyond float64": (
        ["problem={name: logistic-regression, dataset: mushroom}", "clients.count=9",
         "partition={name: sizes, sigma: 500}"],
        "partition: found mean 4, sigma 500 and plus 50; sizes are too large to be counted",
    ),
    "a delay beyond float64": (
        ["clients.delay={name: lognormal, sigma: 1.0e+308}"],
        "clients.delay.sigma: found 1e+308; it should be at most 30",
    ),
    "tiers without number": (
        ["algorithms=[{name: fedat, tiers: [0, 1, 2147483647], local: {steps: 1, lr: 0.1}}]"],
        "algorithms.0.tiers: tier 2 is empty; count them from 0 without gaps",
    ),
}  # fmt: skip
WALK = "participation={select: {name: walk, rule: {name: matrix, path: "
MATRICES = {
    "pipe.npy.csv": "is not a regular file", "zero.csv": "is not a regular file",
    "folder.csv": "Is a directory", "torn.npz": "(it is no array of NumPy's); give numbers alone",
    "whole.npz": "(KeyError: 'format')",
    "far.csc.npz": "(an entry lies outside of its 3 rows and 3 columns)",
    "far.csr.npz": "(an entry lies outside of its 3 rows and 3 columns)",
    "far.coo.npz": "(an entry lies outside of its 3 rows and 3 columns)",
    "below.csr.npz": "(an entry lies outside of its 3 rows and 3 columns)",
    "jump.csr.npz": "(its indptr does not fit its shape)",
    "short.csr.npz": "(its indptr does not fit its shape)",
    "more.csc.npz": "(it has other numbers of entries and of places)",
    "half.csr.npz": "(its indices is no list of whole numbers)",
    "complex.csr.npz": "(entries of type complex128)",
    "wide.csr.npz": "(its indptr does not fit its shape)",
    "blocks.npz": "(it is of format 'bsr'; save matrix.tocsr())",
}  # fmt: skip
TRACES = {
    "clients.delay={name: trace, file: many.csv}": (
        "clients.delay.file: many.csv: found client 4000000000; ids go from 0 to 2"
    ),
    "clients.availability={name: trace, file: many.csv}": (
        "clients.availability.file: found client 4000000000; ids go from 0 to 2"
    ),
    "topology={name: trace, path: pipe.csv}": "pipe.csv: is not a regular file",
    "topology={name: trace, path: /dev/zero}": "/dev/zero: is not a regular file",
    "problem={name: softmax-regression, dataset: {name: arrays, path: labels.npz}}": (
        "has labels up to 1,000,000,000,000 for 3 rows; number them 0, 1, ..."
    ),
    "problem={name: least-squares, dataset: {name: arrays, path: nobody.npz}}": (
        "nobody.npz: has no client in row"
    ),
    "problem={name: least-squares, dataset: {name: arrays, path: turned.npz}}": (
        "turned.npz: has clients of complex128; give whole numbers or names"
    ),
    "problem={name: least-squares, dataset: {name: arrays, path: pipe.npy}}": (
        "pipe.npy: is not a regular file"
    ),
    "problem={name: softmax-regression, dataset: {name: femnist, path: deep}}": (
        "0.json: cannot be read as LEAF's JSON (lists and mappings lie too deep in each other)"
    ),
}  # fmt: skip

# -- files -------------------------------------------------------------------------------------


def yaml(change, before="rounds: 2\n"):
    """Return the scenario with another line in place of one."""
    return SCENARIO.replace(before, change, 1)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n"
    for below, name in itertools.pairwise("abcdefg")
)
TEXTS = {
    "nothing": ("", "holds no mapping"),
    "a word": ("hello", "holds no mapping"),
    "a list": ("- a\n", "holds no mapping"),
    "two documents": (SCENARIO + "---\n" + SCENARIO, "is not valid YAML"),
    "an open bracket": (yaml("rounds: [2\n"), "is not valid YAML"),
    "a tab": (SCENARIO + "\tx: 1\n", "bad.yaml:8: is not valid YAML"),
    "a key twice": (SCENARIO + "rounds: 3\n", "bad.yaml:8: is not valid YAML: the key 'rounds'"),
    "a list as a key": ("[a, b]: 3\n" + SCENARIO, "bad.yaml:1: is not valid YAML: a key is a list"),
    "a mapping as a key": ("{a: b}: 3\n" + SCENARIO, "a key is a list or a mapping"),
    "a list as a key, in a part": (yaml("evaluate: {[a]: 1}\n"), "bad.yaml:2: is not valid YAML"),
    "no hexadecimal number": (yaml("rounds: 0x_\n"), "bad.yaml:2: is not valid YAML: '0x_' is"),
    "no binary number": (yaml("rounds: 0b_\n"), "'0b_' is not a valid int"),
    "no int": (yaml("rounds: !!int abc\n"), "'abc' is not a valid int"),
    "no float": (yaml("rounds: !!float abc\n"), "'abc' is not a valid float"),
    "no bool": (yaml("rounds: !!bool abc\n"), "'abc' is not a valid bool"),
    "a timestamp": (yaml("rounds: !!timestamp foo\n"), "remove its tag"),
    "a date for a number": (yaml("rounds: 2001-99-99\n"), "found '2001-99-99'; it should be a w"),
    "binary": (yaml("rounds: !!binary abc\n"), "remove its tag"),
    "a set": (yaml("seeds: !!set {1}\n"), "remove its tag"),
    "pairs": (yaml("seeds: !!pairs [a: 1]\n"), "remove its tag"),
    "a tag of one's own": (yaml("rounds: !mine 2\n"), "remove its tag: !mine"),
    "a Python object": (yaml("rounds: !!python/object:os.system {}\n"), "remove its tag"),
    "a merge of a number": (SCENARIO + "<<: 3\n", "takes a mapping, or a list of mappings"),
    "a number in base 60": (
        yaml("rounds: 1:30\n"),
        "bad.yaml:2: is not valid YAML: '1:30' is 90 in YAML 1.1, in base 60, and a text in",
    ),
    "a number in base 8": (
        yaml("rounds: 010\n"),
        "bad.yaml:2: is not valid YAML: '010' is 8 in YAML 1.1, in base 8, and 10 in YAML 1.2",
    ),
    "a name in base 60": (SCENARIO + "description: 12:30:45\n", "'12:30:45' is 45045 in YAML 1.1"),
    "5,000 digits": (yaml(f"rounds: {MANY}\n"), "a number of 5,000 characters"),
    "a power of 5,000 digits": (yaml(f"rounds: {MANY}^2\n"), "a number of 5,002 characters"),
    "a negative power of 0": (yaml("rounds: 0^-1\n"), "is too large or too small a number"),
    "1,000 brackets": (yaml("name2: " + "[" * 1000 + "]" * 1000 + "\n"), "more than 50 deep"),
    "1,000 braces": (yaml("x: " + "{a: " * 1000 + "1" + "}" * 1000 + "\n"), "more than 50 deep"),
    "100,000 dashes": ("- " * 100_000, "more than 50 deep"),
    "a bomb of aliases": (BOMB + SCENARIO, "more than 100,000 values, aliases included"),
    "a bomb of aliases, in a grid": (yaml("grid: {rounds: *g}\n" + "") + BOMB, "is not valid YAML"),
    "an alias of itself": (yaml("seeds: &a [*a]\n"), "an alias is part of its own anchor"),
    "an alias of nothing": (yaml("seeds: *nothing\n"), "is not valid YAML"),
    "100,001 values": (yaml(f"seeds: {[0] * 100_001}\n"), "more than 100,000 values"),
    "half of a character": (yaml('name2: "\\ud800"\n'), "is not valid YAML"),
    "half of a character in a key": (yaml('"\\ud800": 1\n'), "is not valid YAML"),
    "a control character": (yaml('description: "a\\eb"\n'), r"'\x1b', in 'a\x1bb'; remove it"),
    "a NUL in a path": (yaml('partition: "a\\0b"\n'), "a control character"),
    "no UTF-8": (b"\xff\xfe\x00name", "is not text in UTF-8"),
    "9 MiB": (b"#" * (9 * 2**20), "has 9.0 MiB; a scenario file has at most 8"),
    "a long key": (SCENARIO + "x" * 900 + ": 3\n", "unknown key"),
    "a long name of an algorithm": (
        yaml(f"  - {{name: {'x' * 3000}}}\n", "  - {name: fedavg, "
             "local: {steps: 2, batch: full, lr: 0.1}}\n"),
        "unknown algorithm 'xxx",
    ),
    "an emoji": (yaml("  - ':b:'\n", "  - {name: fedavg, local: {steps: 2, batch: full, "
                      "lr: 0.1}}\n"), ":b:"),
    "a number that is a key": (SCENARIO + "3: 4\n", "unknown key '3'"),
    "a cohort that the data do not have": (
        yaml("rounds: 2\nparticipation: {cohort: 9}\n"),
        "bad.yaml:3: participation.cohort: found 9, but there are 3 clients",
    ),
    "a clock that never comes": (yaml("stop: {time_s: 1.0e+300}\n"), "at most 1e+12"),
}  # fmt: skip
MODULES = {
    "boom.py": "def f():\n    raise RuntimeError('no\\nway ' * 1000)\nf()\n",
    "torn.py": "x = (\nclass\n",
    "leaves.py": "import sys\nsys.exit(3)\n",
    "thawed.py": "from dataclasses import dataclass\nfrom rayfed.algorithms.fedavg import FedAvg\n"
    "@dataclass\nclass X(FedAvg):\n    name = 'x'\n    a: int = 1\n",
    "wrong.py": "from rayfed.algorithms.fedavg import FedAvg\nclass Wrong(FedAvg):\n"
    "    name = 'wrong'\n    def bound(self, *what):\n        raise ValueError('bad')\n",
    "asks.py": "import not_there_at_all\n",
    "lacks.py": "import os\nos.not_there\n",
}
PATHS = {
    "..:x": "is not a name; write package.module:Class",
    ".:x": "is not a name",
    ":x": "is not a name",
    "a:": "is not a name",
    "a b:c": "is not a name",
    "a..b:c": "is not a name",
    "a/b:c": "is not a name",
    "os.path:join:x": "is not a name",
    "os:path": "'os' is of Python's own library; name a module of yours",
    "rayfed.core.errors:RayfedError": "is not a subclass of Algorithm",
    "rayfed.core.errors:Nothing": "module 'rayfed.core.errors' has no 'Nothing'",
    "nowhere:X": "no module 'nowhere'",
    "rayfed.nowhere:X": "no module 'rayfed.nowhere'",
    "asks:X": "no module 'not_there_at_all' (asks.py:1); is it on the path?",
    "boom:X": "cannot be imported: RuntimeError: no way",
    "torn:X": "cannot be imported: SyntaxError: '(' was never closed (torn.py:1)",
    "leaves:X": "cannot be imported: SystemExit: 3 (leaves.py:2)",
    "lacks:X": "cannot be imported: AttributeError: module 'os' has no attribute 'not_there'",
    "thawed:X": "add frozen=True to its @dataclass (thawed.py:3)",
    "wrong:Wrong": "a plug-in failed: ValueError: bad (wrong.py:5)",
}
MODELS = {
    "missing.npz": "cannot be read: No such file or directory; give zeros, normal, or a model.npz",
    "torn.npz": "cannot be read as a model (it is no array of NumPy's); give zeros",
    "foreign.npz": "cannot be read as a model (KeyError: 'x')",
    "garbage.npz": "cannot be read as a model ('x' is no array of NumPy's)",
    "empty.npz": "it is no array of NumPy's", "empty.npy": "it is no array of NumPy's",
    "text.npy": "it is no array of NumPy's", "objects.npy": "holds Python objects, which could",
    "folder.npz": "Is a directory", "pipe.npy": "is not a regular file",
    "vast.npy": "it claims the shape (99999999999999,), and holds less",
    "loop.npz": "Too many levels of symbolic links",
    "complex.npy": "holds values of type complex128", "structured.npy": "holds values of type",
    "texts.npy": "holds values of type", "truth.npy": "holds values of type bool",
    "nan.npy": "holds NaN or infinite numbers", "inf.npy": "holds NaN or infinite numbers",
    "long.npy": "has 9 numbers, not 3",
}  # fmt: skip
TABLES = {
    "missing.csv": "No such file", "folder.csv": "folder.csv: holds no file that ends in",
    "none*.csv": "none*.csv: matches no file",
    "pipe.csv": "is not a regular file", "pipe.parquet": "is not a regular file",
    "zero.csv": "is not a regular file", "loop.csv": "Too many levels of symbolic links",
    "wide.csv": "columns or more; at most 20,000", "empty.csv": "cannot be read as CSV",
    "header.csv": "has no rows", "quotes.csv": "cannot be read as CSV",
    "ragged.csv": "line 3 has 3 cells, but the header has 2",
    "bytes.csv": "is not written in utf-8 (byte 0x80)",
    "torn.csv.gz": "cannot be read as CSV", "torn.parquet": "cannot be read as Parquet",
    "text.parquet": "cannot be read as Parquet", "empty.parquet": "has no rows",
    "list.parquet": "column 'client', row 1 holds a list",
    "struct.parquet": "column 'client', row 1 holds a dict",
    "binary.parquet": "column 'client', row 1 holds a bytes",
    "features.parquet": "column 'a', row 1 holds '[1.]'",
    "targets.parquet": "column 'y', row 1 holds '[1.]'",
    "dates.parquet": "column 'a', row 1 holds '2001-01-01'",
    "gaps.csv": "column 'a', row 2 is empty or NaN", "digits.csv": "is infinite",
    "cell.csv": "column 'a', row 1 holds 'xxx",
    "complex.csv": "column 'a', row 1 holds '1+2j'", "alone.csv": "has no feature columns",
    "untold.csv": "has no target column 'y'",
}  # fmt: skip
LONG = "x" * 5000
COMMANDS = {
    "no file": (["run"], "run: give scenario files, or --flower with the folder of an app"),
    "no such command": (["fly"], "No such command 'fly'"),
    "no such option": (["run", "small.yaml", "--ouch"], "No such option: --ouch"),
    "an option of 9,000 characters": (["run", "--" + "x" * 9000], "No such option: --xxx"),
    "a name too many": (["list", "delays", "pareto", "more"], "extra argument"),
    "too few graphs": (["topology", "small.yaml", "--frames", "0"], "Invalid value for '--frames'"),
    "a pipe": (["check", "pipe.yaml"], "pipe.yaml: is not a regular file"),
    "a device": (["check", "/dev/zero"], "/dev/zero: is not a regular file"),
    "a loop of links": (["check", "loop.yaml"], "Too many levels of symbolic links"),
    "a folder": (["check", "folder.csv"], "Is a directory"),
    "a long path": (["check", LONG + ".yaml"], "File name too long"),
    "a long word": (["check", LONG], "unknown scenario 'xxx"),
    "half of a character": (["check", "a\udc80.yaml"], r"a\udc80.yaml: cannot be read"),
    "a long --out": (["run", "small.yaml", "--out", LONG], "file name too long"),
    "a loop as --out": (["run", "small.yaml", "--out", "loop.yaml"], "cannot be written"),
    "resume a long path": (["resume", LONG], "file name too long"),
    "resume a loop": (["resume", "loop.yaml"], "too many levels of symbolic links"),
    "resume a file": (["resume", "own.csv"], "is no result folder"),
    "report a long path": (["report", LONG], "file name too long"),
    "report a loop": (["report", "loop.yaml"], "too many levels of symbolic links"),
    "best of a long path": (["best", LONG], "file name too long"),
    "best of nothing": (["best", "nowhere"], "holds no run"),
    "export a long path": (["export", LONG, "--to", "a.npz"], "file name too long"),
    "export nothing": (["export", "nowhere", "--to", "a.npz"], "holds no runs"),
    "graphs for ever": (
        ["topology", "small.yaml", "--set", "topology=ring", "--until", "inf"],
        "--until: found inf; give at most 1e+12 seconds",
    ),
    "graphs until 1e300": (
        ["topology", "small.yaml", "--set", "topology=ring", "--until", "1e300"],
        "--until: found 1e+300",
    ),
    "graphs of clients that move for ever": (
        ["topology", "small.yaml", "--set", "topology={name: geometric, range_m: 9000}",
         "--until", "1e11"],
        "--until: the last graph would be number 100,000,000,000",
    ),
    "no topology": (["topology", "small.yaml"], "topology: is missing"),
    "a long kind": (["list", LONG], "unknown kind 'xxx"),
    "a long name": (["list", "algorithms", LONG], "unknown algorithm 'xxx"),
    "half of a kind": (["list", "a\udc80"], r"unknown kind 'a\udc80'"),
    "an emoji": (["list", ":b:"], "unknown kind ':b:'"),
    "a path of a plug-in": (["list", "algorithms", "..:x"], "is not a name"),
    "a long study": (["reproduce", LONG], "unknown study 'xxx"),
}  # fmt: skip


def files(folder):
    """Write everything that the cases read."""
    (folder / "small.yaml").write_text(SCENARIO)
    (folder / "own.csv").write_text(OWN)
    for name, text in MODULES.items():
        (folder / name).write_text(text)
    for name in ("folder.npz", "folder.csv"):
        (folder / name).mkdir()
    for name in ("pipe.yaml", "pipe.csv", "pipe.parquet", "pipe.npy"):
        os.mkfifo(folder / name)
    for name in ("loop.yaml", "loop.csv", "loop.npz"):
        (folder / name).symlink_to(name)
    (folder / "zero.csv").symlink_to("/dev/zero")
    _models(folder)
    _tables(folder)
    _matrices(folder)
    _many(folder)


def _models(folder):
    x = np.zeros(3)
    np.savez(folder / "whole.npz", x=x)
    whole = (folder / "whole.npz").read_bytes()
    (folder / "torn.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(folder / "foreign.npz", other=x)
    with zipfile.ZipFile(folder / "garbage.npz", "w") as archive:
        archive.writestr("x.npy", b"garbage")
    for name in ("empty.npz", "empty.npy"):
        (folder / name).touch()
    (folder / "text.npy").write_text("a text")
    np.save(folder / "objects.npy", np.array([{}, 1, 2], dtype=object))
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(117)
    (folder / "vast.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.encode() + b"\n")
    np.save(folder / "complex.npy", x + 1j)
    np.save(folder / "structured.npy", np.zeros(3, dtype=[("a", float)]))
    np.save(folder / "texts.npy", np.array(["a", "b", "c"]))
    np.save(folder / "truth.npy", x > 0)
    np.save(folder / "nan.npy", x * np.nan)
    np.save(folder / "inf.npy", x + np.inf)
    np.save(folder / "long.npy", np.zeros(9))


def _tables(folder):
    texts = {
        "empty.csv": "", "header.csv": "client,a,y\n", "quotes.csv": 'client,a,y\n0,"1,1\n',
        "ragged.csv": "a,y\n1,2\n1,2,3\n", "gaps.csv": "client,a,y\n0,1,1\n1,,2\n",
        "digits.csv": f"client,a,y\n0,{MANY},1\n1,2,2\n", "cell.csv": f"a,y\n{LONG * 20},1\n",
        "complex.csv": "client,a,y\n0,1+2j,1\n1,2,2\n", "alone.csv": "client,y\n0,1\n",
        "untold.csv": "client,a\n0,1\n", "text.parquet": "a text",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    names = ",".join(f"c{k}" for k in range(1_000_000))
    (folder / "wide.csv").write_text(f"{names},y\n" + "1," * 1_000_000 + "1\n")
    (folder / "bytes.csv").write_bytes(bytes(range(256)) * 10)
    (folder / "torn.csv.gz").write_bytes(b"\x1f\x8b\x08\x00abc")
    columns = {
        "empty": {}, "list": {"client": [[0], [1]], "a": [1.0, 2.0]},
        "struct": {"client": [{"k": 1}, {"k": 2}], "a": [1.0, 2.0]},
        "binary": {"client": [b"a", b"\xff"], "a": [1.0, 2.0]},
        "features": {"a": [[1.0], [2.0]]}, "dates": {"a": [datetime.date(2001, 1, 1)] * 2},
        "targets": {"a": [1.0, 2.0], "y": [[1.0], [2.0]]},
    }  # fmt: skip
    for name, held in columns.items():
        table = pa.table({"y": [1.0, 2.0], **held} if held else {})
        pq.write_table(table, folder / f"{name}.parquet")
    whole = (folder / "dates.parquet").read_bytes()
    (folder / "torn.parquet").write_bytes(whole[:50])


def _matrices(folder):
    """Write sparse matrices as SciPy does, with indices that are not those of 3 x 3 entries."""
    ones, here, ends = np.ones(3), np.arange(3), np.arange(4)
    far = np.array([0, 1, 10**9])
    rows = {
        "far.csc": (ones, far, ends), "far.csr": (ones, far, ends), "below.csr": (ones, -far, ends),
        "jump.csr": (ones, here, np.array([0, 10**9, 2, 3])), "short.csr": (ones, here, ends[:2]),
        "more.csc": (ones[:2], here, ends), "half.csr": (ones, here + 0.5, ends),
        "complex.csr": (ones + 1j, here, ends), "wide.csr": (ones, here, ends),
    }  # fmt: skip
    for name, (data, indices, indptr) in rows.items():
        shape = np.array([2**31 - 1] * 2 if name == "wide.csr" else [3, 3])
        parts = {"data": data, "indices": indices, "indptr": indptr, "shape": shape}
        np.savez(folder / f"{name}.npz", format=np.array(name[-3:].encode()), **parts)
    places = {"row": far, "col": here, "data": ones, "shape": np.array([3, 3])}
    np.savez(folder / "far.coo.npz", format=np.array(b"coo"), **places)
    np.savez(folder / "blocks.npz", format=np.array(b"bsr"), **places)
    os.mkfifo(folder / "pipe.npy.csv")


def _many(folder):
    """Write files with numbers that nothing has so many of, and names of nobody."""
    (folder / "many.csv").write_text("client,compute_s,start_s,end_s\n4000000000,1,1,2\n")
    X, y = np.zeros((3, 2)), np.arange(3.0)
    np.savez(folder / "labels.npz", X=X, y=np.array([0, 1, 10**12]))
    np.savez(folder / "nobody.npz", X=X, y=y, client=np.array([0, np.nan, np.nan]))
    np.savez(folder / "turned.npz", X=X, y=y, client=np.array([0, 1, 1j]))
    (folder / "deep" / "train").mkdir(parents=True)
    (folder / "deep" / "train" / "0.json").write_text("[" * 100_000)


def cases():
    """Yield a name, a text for ``bad.yaml`` or None, the command, and what the message names."""
    for name, changes, line in settings():
        yield name, None, _check(changes), line
    for name, (changes, line) in OVERRIDES.items():
        yield f"override: {name}", None, _check(changes), line
    for name, (text, line) in TEXTS.items():
        yield f"file: {name}", text, ["check", "bad.yaml"], line
    for path, line in PATHS.items():
        yield f"plug-in: {path}", None, _check([f"algorithms.0.name='{path}'"]), line
    for file, line in MODELS.items():
        yield f"model: {file}", None, _check([f"problem.init={file}"]), line
    for file, line in TABLES.items():
        yield f"data: {file}", None, _check([f"problem.dataset={file}"]), line
    for file, line in MATRICES.items():
        change = f"{WALK}{file}}}}}}}"
        yield f"matrix: {file}", None, _check(["topology=ring", change]), line
    for change, line in TRACES.items():
        yield f"trace: {change}", None, _check([change]), line
    for name, (arguments, line) in COMMANDS.items():
        yield f"command: {name}", None, arguments, line


def _check(changes):
    return ["check", "small.yaml", *(part for change in changes for part in ("--set", change))]
