"""Small studies below one folder."""

import shutil

import pytest

import rayfed
from rayfed.testing.studies import mixed


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with two studies, one of them two folders down."""
    root = tmp_path_factory.mktemp("results")
    rayfed.run(mixed(seeds=[3, 4]), out=root / "first", page=False)
    rayfed.run(mixed(rounds=4), out=root / "deep" / "second", page=False)
    return root


@pytest.fixture(autouse=True)
def configuration(tmp_path, monkeypatch):
    """An empty configuration in place of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def folder(made, tmp_path):
    """A copy of them."""
    return shutil.copytree(made, tmp_path / "results")
