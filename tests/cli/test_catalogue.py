"""What ``rayfed list`` prints comes from docstrings and types, of the user's classes too."""

import inspect
import io
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest
from annotated_types import Ge
from rich.console import Console

from rayfed.algorithms import Algorithm, FedAvg
from rayfed.cli import catalogue
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import VECTORS
from rayfed.core.plugins import KINDS, find, settings

EVERY = [(kind, name) for kind in KINDS for name in find(kind)]


@dataclass(frozen=True, kw_only=True)
class Peeking(FedAvg):
    """FedAvg that looks at single vectors,
    which it says on two lines.

    More about it.

    Parameters
    ----------
    depth : int
        How deep
        it looks.
    left, right : float, optional
        On either side.
    mode : "a" or "b" or int
        One of [a] or [b].
    sizes : tuple of int
        Many.
    fast : bool
        Yes or no.

    Notes
    -----
    Deviations: all of them.

    Examples
    --------
    >>> 1 + 1
    2
    """

    name: ClassVar[str] = "peeking"
    needs: ClassVar = Algorithm.needs | {VECTORS}

    depth: int = 3
    left: float | None = None
    right: float | None = 2.5
    mode: Literal["a", "b"] | int = "a"
    sizes: tuple[Annotated[int, Ge(1)], ...] = (1, 2)
    fast: bool = True


def cells(table):
    """Return the rows of a table as text."""
    return list(zip(*(column._cells for column in table.columns), strict=True))


@pytest.fixture
def peeking():
    """Return the description and the settings of a class of the user's."""
    text, table = catalogue.details("algorithms", f"{__name__}:Peeking")
    return text, {row[0]: row[1:] for row in cells(table)}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let this file be found as a user's module is."""
    monkeypatch.setitem(sys.modules, __name__, inspect.getmodule(Peeking))


def test_the_overview_has_a_line_for_everything_found():
    for kind in KINDS:
        rows = cells(catalogue.overview(kind))
        assert [name for name, _ in rows] == list(find(kind))
        assert all(text.strip() and "\n" not in text for _, text in rows)


def test_the_first_line_is_put_on_one_line():
    assert catalogue.first_line(Peeking) == (
        "FedAvg that looks at single vectors, which it says on two lines."
    )


def test_baselines_and_those_that_see_vectors_are_marked():
    rows = dict(cells(catalogue.overview("algorithms")))
    assert rows["centralised"].endswith("(baseline)")
    assert rows["local-only"].endswith("(baseline)")
    assert "baseline" not in rows["fedavg"]
    assert catalogue._marks(Peeking) == " (sees single vectors)"


def test_the_description_has_the_text_and_the_notes_but_no_examples(peeking):
    text = peeking[0]
    assert "More about it." in text
    assert "Deviations: all of them." in text
    assert "1 + 1" not in text
    assert "How deep" not in text  # that is in the table


def test_settings_have_types_defaults_and_meanings(peeking):
    settings = peeking[1]
    assert settings["depth"] == ("int", "3", "How deep it looks.")
    assert settings["left"] == ("float | null", "null", "On either side.")
    assert settings["right"] == ("float | null", "2.5", "On either side.")
    assert settings["mode"][:2] == ("a | b | int", "a")
    assert settings["sizes"] == ("list of int", "[1, 2]", "Many.")
    assert settings["fast"] == ("bool", "true", "Yes or no.")


def test_a_default_of_settings_is_shown_as_a_scenario_gives_it():
    rows = cells(catalogue.details("availability", "diurnal")[1])
    assert rows[0][:3] == ("zones", "list of Zone | float", "[{utc_h: 0.0, share: 1.0}]")


def test_brackets_are_printed():
    said = io.StringIO()
    table = catalogue.details("algorithms", f"{__name__}:Peeking")[1]
    Console(file=said, width=200).print(table)
    assert "One of [a] or [b]." in said.getvalue()


def test_settings_of_base_classes_are_there(peeking):
    settings = peeking[1]
    assert settings["server_lr"][1:] == ("1.0", "Server step eta_g; 1 is the paper's plain average "
                                                "of models.")  # fmt: skip
    assert settings["local"][1] == "sgd"
    assert settings["evaluate_last"][1] == "1"


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_setting_of_every_plug_in_says_what_it_means(kind, name):
    text, table = catalogue.details(kind, name)
    rows = cells(table)
    assert text.splitlines()[0].strip()
    assert [row[0] for row in rows] == [f.name for f in settings(find(kind)[name])]
    for setting, hint, default, meaning in rows:
        assert meaning, f"{name}.{setting}"
        assert hint
        assert "rayfed." not in hint
        assert "typing." not in hint
        assert default


def test_a_required_setting_says_so():
    rows = {row[0]: row for row in cells(catalogue.details("partitions", "dirichlet")[1])}
    assert rows["alpha"][2] == "(required)"


@pytest.mark.parametrize("name", [n for n, cls in find("algorithms").items() if not cls.baseline])
def test_every_algorithm_names_its_paper(name):
    assert "Source: " in catalogue.details("algorithms", name)[0]
    assert "https://" in catalogue.details("algorithms", name)[0]


def test_an_unknown_name():
    with pytest.raises(ScenarioError, match=r"unknown delay 'constnt'; did you mean 'constant'\?"):
        catalogue.details("delays", "constnt")


def test_the_kind_may_be_left_out(command):
    by_kind = command("list", "algorithms", "fedprox")
    assert command("list", "fedprox") == by_kind
    assert by_kind[0] == 0
    status, _, err = command("list", "uniform")
    assert status == 2
    assert "uniform: is among " in err
    assert "write rayfed list " in err
    status, _, err = command("list", "fedprix")
    assert (status, err) == (2, "rayfed: unknown kind 'fedprix'; did you mean 'fedprox'?\n")
