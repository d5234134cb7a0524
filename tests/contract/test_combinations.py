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
PARTIAL = ("heterofl", "fedrolex", "federated-dropout", "hetlora")
"""Methods of layered models, with plain loops in ``tests/algorithms/test_het*.py``."""


def alone(method):
    """Return a method with each part, and with each codec and memory."""
    parts = [{part: name} for part, names in PARTS.items() for name in names]
    parts += [{"codec": codec, "memory": memory} for codec in CODECS for memory in MEMORIES]
    return list(dict.fromkeys(Combination(method, **each).simplified() for each in parts))


FEW = [*alone("fedavg"), *drawn([*METHODS, "disco"], 2, seed=1)]


def check(combination, seen=()):
    """Run what is accepted of a combination, unless it was seen before, and return it."""
    combination, plan = accepted(combination)
    found = None if combination in seen else apart(combination, Ran(plan))
    assert found is None, f"{combination}: {found}"
    return combination


def test_every_method_has_a_plain_loop():
    """Those without a server refuse what combinations consist of; see ``test_gossip``."""
    known = {method.settings["name"] for method in METHODS.values()} | {*ALONE, *PARTIAL}
    assert known == {
        name for name, cls in find("algorithms").items() if not (cls.centralised or cls.gossip)
    }


@pytest.mark.parametrize("combination", FEW, ids=lambda each: each.method)
def test_a_combination_agrees_or_is_refused(combination):
    check(combination)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, *ALONE])
def test_a_method_with_each_part_and_each_codec_with_each_memory(method):
    """Random combinations as well."""
    if method == "fedbn":
        pytest.importorskip("torch")
    seen = set()
    for combination in [*alone(method), *drawn([method], 10, seed=2)]:
        seen.add(check(combination, seen))
    assert len(seen) > 1
