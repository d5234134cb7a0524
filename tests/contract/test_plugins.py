"""What every plug-in that the search finds must keep: the checks of `rayfed.testing`, all kinds."""

import pytest

from rayfed.core.errors import LibraryMissing
from rayfed.core.plugins import KINDS, find
from rayfed.testing.checks import Skipped, checks

ALL = [
    pytest.param(
        cls,
        check,
        id=f"{kind}-{name}-{label.removeprefix('check_')}",
        marks=pytest.mark.guard if label == "check_bits" else (),  # a stop and a resume
    )
    for kind in KINDS
    for name, cls in find(kind).items()
    for label, check in checks(kind).items()
]


@pytest.mark.parametrize(("cls", "check"), ALL)
def test_plugin(cls, check, tmp_path):
    try:
        check(cls, tmp_path)
    except (Skipped, LibraryMissing) as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_checks_of_its_own(kind):
    common = {"check_documented", "check_frozen", "check_source"}
    assert common < set(checks(kind))
    assert len(find(kind)) >= 1
