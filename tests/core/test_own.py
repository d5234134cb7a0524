"""Modules that scenarios name are the ones that are meant, or none."""

import sys
from importlib import import_module

import pytest

from rayfed.core import own
from rayfed.core.errors import ScenarioError
from rayfed.core.own import Names, Untrusted, admit, is_defined, resolving, settle, settled
from rayfed.core.plugins import load


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders with modules of the same names, and a Python's path that is given back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.chdir(tmp_path)
    for name in ("beside", "on_path", "."):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "own_place.py").write_text(f"home = {name!r}\n")
    (tmp_path / "here_alone.py").write_text("home = '.'\n")
    sys.path.insert(0, str(tmp_path / "on_path"))
    yield tmp_path
    for name in ("own_place", "here_alone", "own_package", "own_package.part"):
        sys.modules.pop(name, None)


def test_beside_comes_before_pythons_path_and_that_before_here(places):
    with resolving(Names(scenario_folder=str(places / "beside"))):
        assert load("own_place:home") == "beside"
    assert import_module("own_place").home == "beside"
    del sys.modules["own_place"]
    settled_before, own._settled = own._settled, {}
    assert load("own_place:home") == "on_path"
    own._settled = settled_before
    assert load("here_alone:home") == "."


def test_nothing_is_put_before_the_libraries(places):
    before = list(sys.path)
    with resolving(Names(scenario_folder=str(places / "beside"))):
        assert sys.path == before  # no module is named yet
        load("own_place:home")
        load("here_alone:home")
    assert sys.path[: len(before)] == before
    assert sys.path[len(before) :] == [str(places / "beside"), str(places)]


def test_another_process_settles_the_same(places):
    with resolving(Names(scenario_folder=str(places / "beside"))):
        admit("own_place:home")
    homes = settled()
    assert homes == {"own_place": str(places / "beside")}
    own._settled.clear()
    settle(homes)
    assert import_module("own_place").home == "beside"


@pytest.mark.parametrize("imported", [True, False])
def test_two_studies_do_not_share_a_module_by_mistake(places, imported):
    """Whether the first one has imported its module already, or will later."""
    with resolving(Names(scenario_folder=str(places / "beside"))):
        admit("own_place:home")
    if imported:
        import_module("own_place")
    (places / "other").mkdir()
    (places / "other" / "own_place.py").write_text("")
    told = r"'own_place' was imported from .*beside, and this study"
    with (
        resolving(Names(scenario_folder=str(places / "other"))),
        pytest.raises(ScenarioError, match=told),
    ):
        admit("own_place:home")


def test_packages_with_and_without_a_file_are_found(places):
    part = places / "beside" / "own_package" / "part.py"
    part.parent.mkdir()
    part.write_text("home = 'beside'\n")
    with resolving(Names(scenario_folder=str(places / "beside"))):
        assert load("own_package.part:home") == "beside"
    for name in ("own_package", "own_package.part"):
        del sys.modules[name]
    (part.parent / "__init__.py").write_text("")
    with resolving(Names(scenario_folder=str(places / "beside"))):
        assert load("own_package.part:home") == "beside"


def test_a_result_folder_names_nothing_without_trust(places):
    noted = {"own_place": str(places / "beside")}
    every = ("own_place", "here_alone")
    told = f"would run {places / 'beside' / 'own_place.py'}, {places / 'here_alone.py'}; read that"
    for names in (
        Names(results="out", every=every, noted=noted),  # somebody else noted it
        Names(results="out", every=every, noted=noted, made_here=True),  # not that one
    ):
        with resolving(names), pytest.raises(Untrusted) as error:
            admit("here_alone:home" if names.made_here else "own_place:home")
        assert str(error.value).startswith("out: not made by you here, and ")
        assert told in str(error.value)
    assert not {"own_place", "here_alone"} & sys.modules.keys()
    with resolving(Names(results="out", every=every, noted=noted, made_here=True)):
        assert load("own_place:home") == "beside"
        with resolving(Names(scenario_folder=str(places))), pytest.raises(Untrusted):
            admit("here_alone:home")  # a scenario file in the folder makes nothing better
    with resolving(Names(results="out", noted=noted, trusted=True)):
        assert load("here_alone:home") == "."


def test_no_module_of_pythons_own_is_named():
    before = set(sys.modules)
    for name in sorted(sys.stdlib_module_names):
        with pytest.raises(ScenarioError, match="is of Python's own library"):
            admit(f"{name}:anything")
    assert set(sys.modules) == before


def test_a_package_that_requires_rayfed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    home = tmp_path / "site-packages"
    for name, requires in (("rayfed_more", "rayfed-sim>=0.1"), ("rayfed_less", "rayfed-sim-other")):
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text("def made():\n    pass\n")
        about = home / f"{name}-1.0.dist-info"
        about.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n"
        (about / "METADATA").write_text(text)
        (about / "top_level.txt").write_text(f"{name}\n")
    sys.path.append(str(home))
    own._requires_rayfed.cache_clear()
    admit("rayfed_more:made")
    with pytest.raises(ScenarioError, match="'rayfed_less' is an installed library"):
        admit("rayfed_less:made")
    own._requires_rayfed.cache_clear()


def test_functions_are_of_the_module_that_defines_them():
    assert is_defined(f"{__name__}:helper", helper)
    assert is_defined("rayfed.core.plugins:load", load)
    assert not is_defined(f"{__name__}:import_module", import_module)
    assert not is_defined(f"{__name__}:len", len)
    assert not is_defined(f"{__name__}:load", load)


def helper():
    """Stand for a function of a user's."""
