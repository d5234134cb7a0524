"""What the README shows is what there is."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from rayfed.cli.main import app
from rayfed.study import Study

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_scenario_is_valid():
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.S)
    study = Study.parse(yaml.safe_load(text))
    assert study.labels == ("fedavg", "fedexp", "local-only")


def test_every_command_exists_and_every_command_is_shown():
    shown = set(re.findall(r"^    rayfed (\w+)", README, re.M))
    assert shown == set(get_command(app).commands)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_link_leads_somewhere(link):
    assert (Path(__file__).parents[1] / link).exists()
