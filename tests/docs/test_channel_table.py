"""The table of what goes with what in the channel is what is accepted and refused."""

import re
from pathlib import Path

import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.testing.studies import mixed_for

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "compress.md"
HEAD = "| algorithm | codec | clip | memory | downlink | rule | late |"
RAND, TOP = {"name": "rand-k", "share": 0.5}, {"name": "top-k", "share": 0.5}
WAYS = {
    "codec": ({"uplink": [RAND]}, {"uplink": [TOP]}),
    "clip": ({"uplink": [{"name": "clip", "norm": 1.0}]},),
    "memory": ({"uplink": [TOP | {"memory": "ef21"}]},),
    "downlink": ({"downlink": [TOP | {"memory": "ef21"}]}, {"downlink": [TOP]}),
    "rule": ({"aggregate": "median"},),
    "late": ({"late": "partial"}, {"late": "stale"}),
}
"""What is asked for a column, in the order of the words that say what is accepted of it."""
WORDS = {
    "codec": {(True, True): "any", (False, True): "contractive"},
    "downlink": {(True, True): "yes", (False, True): "no memory"},
    "late": {(True, True): "partial, stale", (True, False): "partial"},
}
SHORT = (
    (r"^\S+: ", ""), (r"found \w+, but ", ""), (r"; .*$", ""),
    (r"^(it needs .*), but .*$", r"\1"), (r"'ef21'", "a memory"),
    (r"'median'", "a rule"), (r"'[\w-]+' needs", "a codec needs"),
    (r"'\w+' to what", "uploads to what"),
)  # fmt: skip
"""What is left out of a reason, or said of any algorithm."""


def refusal(cls, late=None, **way):
    """Return why a study of an algorithm is refused; empty if it is not."""
    made = mixed_for(cls, **way)
    if "aggregate" in way:
        made["algorithms"][0]["weights"] = "uniform"
    if cls.name == "rwsadmm":
        made |= {"topology": "complete", "participation": {"select": "walk"}}
    if late is not None:
        made["participation"] |= {"late": late, "deadline_s": 100}
    try:
        api.prepare(api.read(made))
    except ScenarioError as error:
        return str(error)
    return ""


def wanted():
    """Return the table, and why what is not accepted of each column is refused."""
    lines, reasons = [HEAD, "|---" * HEAD.count(" |") + "|"], {column: {} for column in WAYS}
    for name, cls in find("algorithms").items():
        if cls.centralised or cls.gossip:
            continue
        cells = [f"`{name}`"]
        for column, ways in WAYS.items():
            why = [refusal(cls, **way) for way in ways]
            word = "no" if all(why) else "yes"
            cells.append(WORDS.get(column, {}).get(tuple(not text for text in why), word))
            for text in sorted({in_short(text, name) for text in why if text}):
                reasons[column].setdefault(text, []).append(f"`{name}`")
        lines.append(f"| {' | '.join(cells)} |")
    told = [
        f"- {column}: " + "; ".join(f"{text} ({', '.join(of)})" for text, of in found.items()) + "."
        for column, found in reasons.items()
    ]
    return "\n".join(lines), "\n".join(told)


def in_short(text, name):
    """Return a reason without what to do about it, for any algorithm."""
    text = text.replace(f"'{name}'", "it")
    for pattern, instead in SHORT:
        text = re.sub(pattern, instead, text)
    return text


def said():
    """Return the table of the page, and the list that ends it."""
    text = PAGE.read_text(encoding="utf-8")
    table = re.search(rf"^{re.escape(HEAD)}\n(\|.*\n)+", text, re.M)[0]
    return table.rstrip(), re.search(r"(^- .*\n)+\Z", text, re.M)[0].rstrip()


def test_the_table_has_all_algorithms_with_clients_and_a_server():
    known = {n for n, cls in find("algorithms").items() if not (cls.centralised or cls.gossip)}
    assert set(re.findall(r"^\| `([\w-]+)`", said()[0], re.M)) == known


@pytest.mark.slow
def test_the_table_and_the_reasons_are_what_plans_say():
    assert said() == wanted()
