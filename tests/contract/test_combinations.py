"""Methods with all that happens to what they send agree with plain loops, or are refused in time.

A combination is planned; what a refusal is about is left out of it until it is accepted, and the
rest is run for 20 rounds beside the plain loop of `references`. Nothing fails in a run.
"""

import pytest

from rayfed.core.plugins import find
from tests.contract.references.combination import (
    CODECS,
    MEMORIES,
    PARTS,
    Combination,
    Ran,
    accepted,
    apart,
    drawn,
)
from tests.contract.references.methods import METHODS

ALONE = ("disco", "fedbn")
"""Methods without a plain loop: conjugate gradients end by a tolerance, layers normalise."""
FEW = [(f"{each.method} {n}", each) for n, each in enumerate(drawn([*METHODS, "disco"], 3, seed=1))]


def check(combination, seen=()):
    """Run what is accepted of a combination, unless it was seen before, and return it."""
    combination, plan = accepted(combination)
    found = None if combination in seen else apart(combination, Ran(plan))
    assert found is None, f"{combination}: {found}"
    return combination


def test_every_method_has_a_plain_loop():
    known = {method.settings["name"] for method in METHODS.values()} | set(ALONE)
    assert known == {name for name, cls in find("algorithms").items() if not cls.centralised}


@pytest.mark.parametrize("combination", [c for _, c in FEW], ids=[name for name, _ in FEW])
def test_a_combination_agrees_or_is_refused(combination):
    check(combination)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, *ALONE])
def test_a_method_with_each_part_and_each_codec_with_each_memory(method):
    """Parts alone, codecs with memories and one more part each, and random ones."""
    if method == "fedbn":
        pytest.importorskip("torch")
    alone = [Combination(method, **{p: name}) for p, names in PARTS.items() for name in names]
    memories = [
        Combination(method, codec=codec, memory=memory)
        for codec in CODECS for memory in MEMORIES if "none" not in (codec, memory)
    ]  # fmt: skip
    seen = set()
    for combination in [*alone, *memories, *drawn([method], 10, seed=2)]:
        seen.add(check(combination.simplified(), seen))
    assert len(seen) > 1
