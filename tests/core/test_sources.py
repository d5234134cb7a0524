"""Modules of the user's are imported elsewhere from sources, once, as they are where they lie."""

import pickle
import shutil
import subprocess
import sys
from importlib import import_module

import pytest

from rayfed.core.own import settle
from rayfed.core.sources import Sources

MINE = """
from __future__ import annotations
import threading
from enum import Enum
from functools import cache, cached_property, lru_cache, partial, singledispatch
from shipped_package.sub import half
from shipped_helper import factor

LOCK = threading.Lock()
third = partial(pow, 3)

class Kind(Enum):
    A = 1

@singledispatch
def size(x):
    return 0

@size.register
def _(x: int):
    return x

@lru_cache(maxsize=None)
def squared(n):
    return n * n

class Holder:
    @cached_property
    def doubled(self):
        import shipped_mine
        assert shipped_mine.Holder is type(self)
        with LOCK:
            return 2 * size(4)
"""
USES = """
import pickle, sys
sources, values = pickle.loads(sys.stdin.buffer.read())
sources.install()
holder, kind, squared = pickle.loads(values)
import shipped_mine as mine
assert type(holder) is mine.Holder and kind is mine.Kind.A and squared is mine.squared
print(holder.doubled, squared(3), mine.half(5), mine.factor(4), mine.third(2), mine.__file__)
"""


@pytest.fixture
def home(tmp_path):
    """Modules in a folder, imported in this process."""
    (tmp_path / "shipped_package" / "sub").mkdir(parents=True)
    (tmp_path / "shipped_package" / "sub" / "__init__.py").write_text("from .deep import half\n")
    (tmp_path / "shipped_package" / "sub" / "deep.py").write_text("def half(x): return x / 2\n")
    (tmp_path / "shipped_helper.py").write_text("def factor(n): return 1 / n\n")
    (tmp_path / "shipped_mine.py").write_text(MINE)
    settle({name: str(tmp_path) for name in ("shipped_mine", "shipped_helper", "shipped_package")})
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("shipped_")]:
        del sys.modules[name]


def test_modules_are_imported_from_sources_where_no_file_is(home):
    mine = import_module("shipped_mine")
    modules = [module for name, module in sys.modules.items() if name.startswith("shipped_")]
    values = pickle.dumps((mine.Holder(), mine.Kind.A, mine.squared))
    sent = pickle.dumps((Sources.of(modules), values))
    shutil.rmtree(home)
    ended = subprocess.run(
        [sys.executable, "-P", "-c", USES], input=sent, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    *found, file = ended.stdout.decode().split()
    assert found == ["8", "9", "2.5", "0.25", "9"]
    assert file == str(home / "shipped_mine.py")


def test_a_module_without_a_source_is_left_out():
    assert Sources.of([sys.modules["sys"]]).files == {}
