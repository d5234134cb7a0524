"""What the browser may do to studies."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.control import LOG, Control


@pytest.fixture
def control(folder):
    catalogue = Catalogue([folder])
    catalogue.look()
    return Control(catalogue)


def test_a_study_is_extended_by_the_command(control, folder, assert_same, tmp_path):
    import rayfed
    from rayfed.testing.studies import mixed

    told = control.do("extend", {"study": "results/deep/second", "rounds": "12", "seeds": "3,4"})
    assert told == f"extend of results/deep/second has started; its output is in {LOG}"
    with pytest.raises(ScenarioError, match="is running already"):
        control.do("resume", {"study": "results/deep/second"})
    assert control.started["results/deep/second"].wait(120) == 0
    assert "asked to" not in (folder / "deep" / "second" / LOG).read_text()
    rayfed.run(mixed(seeds=[3, 4]), out=tmp_path / "whole", page=False)
    assert_same(tmp_path / "whole", folder / "deep" / "second")


@pytest.mark.parametrize(
    ("what", "given", "text"),
    [
        ("resume", {"study": "../elsewhere"}, "no study"),
        ("resume", {}, "no study"),
        ("delete", {"study": "results/first"}, "is no action; use stop"),
        ("stop", {"study": "results/first"}, "nobody runs this study"),
        ("extend", {"study": "results/first", "rounds": "--out=x"}, "give numbers"),
        ("extend", {"study": "results/first", "seeds": "3;rm"}, "give numbers"),
    ],
)
def test_what_does_not_suit_is_refused(control, folder, what, given, text):
    with pytest.raises(ScenarioError, match=text):
        control.do(what, given)
    assert not control.started
    assert not (folder / "first" / LOG).exists()
