"""Every algorithm has a study or a notebook that shows what it is for."""

from pathlib import Path

import yaml

from rayfed.core import plugins

ROOT = Path(__file__).parents[2]


def test_every_algorithm_is_shown_by_a_scenario_or_a_notebook():
    studies = [yaml.safe_load(path.read_text()) for path in ROOT.glob("scenarios/*.yaml")]
    named = [each for study in studies for each in study.get("algorithms", ())]
    shown = {each if isinstance(each, str) else each["name"] for each in named}
    notebooks = "".join(path.read_text() for path in ROOT.glob("analysis/*.ipynb"))
    known = plugins.find("algorithms")
    assert len(known) > 30
    assert not [
        name
        for name, found in known.items()
        if name not in shown and f"algorithms.{found.__name__}(" not in notebooks
    ]
