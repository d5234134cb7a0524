"""Old import paths lead to the new ones and warn."""

import importlib

import pytest

import rayfed
from rayfed.core import moved
from rayfed.core.plugins import packaged


@pytest.mark.parametrize("old", moved.MODULES)
def test_an_old_module_leads_to_the_new_one(old):
    module, new = importlib.import_module(old), importlib.import_module(moved.MODULES[old])
    names = [name for name in dir(new) if name[:1].isupper() and hasattr(new, name)]
    assert names
    with pytest.warns(DeprecationWarning, match=f"{old}.{names[0]} is now {new.__name__}"):
        assert getattr(module, names[0]) is getattr(new, names[0])


@pytest.mark.parametrize(
    ("module", "name", "new"), [(*key, new) for key, new in moved.RENAMED.items()]
)
def test_a_renamed_class_is_found_by_its_old_name(module, name, new):
    with pytest.warns(DeprecationWarning, match=f"is now .*{new}; "):
        found = getattr(importlib.import_module(module), name)
    assert found.__name__ == new


def test_old_modules_are_attributes_and_warn_where_they_are_used():
    with pytest.warns(DeprecationWarning, match="rayfed.population.Lognormal") as caught:
        from rayfed.delays import Lognormal  # type: ignore[import-not-found]

    assert Lognormal is rayfed.population.Lognormal
    assert caught[0].filename == __file__
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("rayfed.delay")


def test_new_paths_do_not_warn(recwarn):
    assert packaged("rayfed.population")
    assert rayfed.population.Lognormal
    assert not [each for each in recwarn if each.category is DeprecationWarning]
