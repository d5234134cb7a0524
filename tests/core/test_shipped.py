"""Scenarios are given by path or by name; what is not there is said with the place."""

import re

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.shipped import locate


def test_a_relative_path_of_another_folder_says_where_it_was_looked_for(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "study.yaml").write_text("rounds: 1\n")
    monkeypatch.chdir(tmp_path)
    assert locate("study.yaml").is_file()
    monkeypatch.chdir("here")
    where = re.escape(str(tmp_path / "here"))
    with pytest.raises(ScenarioError, match=rf"^study\.yaml: .*; looked in {where}$"):
        locate("study.yaml")
    with pytest.raises(ScenarioError, match=r"No such file or directory$"):
        locate(tmp_path / "here" / "study.yaml")


def test_a_path_to_what_comes_with_rayfed_is_told_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=r"with rayfed is 'quickstart' alone$"):
        locate("scenarios/quickstart.yaml")
