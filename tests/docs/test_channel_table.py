"""The table of what goes with what in the channel is what is accepted and refused."""

import re
from pathlib import Path

import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.testing.studies import mixed_for

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "compress.md"
TOP = {"name": "top-k", "k": 2}
WAYS = (
    {"uplink": [TOP]},
    {"uplink": [TOP | {"memory": "error-feedback"}]},
    {"uplink": [TOP | {"memory": "ef21"}], "late": "stale"},
)
"""A codec, a memory, and a memory at the server where replies may be late."""
ROW = re.compile(r"^\| `([\w-]+)` \| (yes|no) \| (yes|no) \| (yes|no) \|$", re.M)


def said():
    return {name: answers for name, *answers in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def answer(cls, uplink, late="drop"):
    made = mixed_for(cls, uplink=uplink)
    if not cls.asynchronous:
        made["participation"] = made["participation"] | {"late": late}
    if cls.name == "rwsadmm":
        made |= {"topology": "complete", "participation": {"select": "walk", "late": late}}
    try:
        api.prepare(api.read(made))
    except ScenarioError:
        return "no"
    return "yes"


def test_the_table_has_all_algorithms_but_baselines_with_all_rows():
    assert set(said()) == {n for n, cls in find("algorithms").items() if not cls.centralised}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(said()))
def test_the_table_says_what_is_accepted(name):
    cls = find("algorithms")[name]
    assert said()[name] == [answer(cls, **way) for way in WAYS]
