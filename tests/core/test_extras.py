"""Extras of the distribution: commands that install them, and texts that name them."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rayfed.core.extras import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PLACES = ("README.md", "CONTRIBUTING.md", "analysis/*.md", "docs/**/*.md", "rayfed/**/*.py")


def parsed(requirements):
    """Return names and versions of requirements, whatever their spelling."""
    return {(canonicalize_name(r.name), r.specifier) for r in map(Requirement, requirements)}


def test_the_name_is_that_of_the_distribution():
    assert PROJECT["name"] == DISTRIBUTION


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_the_command_names_the_packages_of_an_extra(extra):
    pip, verb, *packages = shlex.split(install(extra))
    assert (pip, verb) == ("pip", "install")
    wanted = PROJECT["optional-dependencies"][extra]
    assert parsed(packages) == parsed(wanted)


def test_no_text_installs_by_a_name_that_no_index_has():
    """Nothing is published: commands install a checkout, a wheel, or the packages of an extra."""
    found = [path for place in PLACES for path in ROOT.glob(place) if "_build" not in path.parts]
    named = re.compile(r"rayfed(-sim)?\[|pip install ['\"]?rayfed(?!_sim-\d)")
    assert len(found) > 500
    assert [str(path) for path in found if named.search(path.read_text("utf-8"))] == []
