"""Tables that commands print: nothing cuts what somebody came for."""

from dataclasses import dataclass

import pandas as pd
import pytest
from rich.console import Console

from rayfed.cli import tables


@dataclass
class Choice:
    """What `best` is given: settings of two algorithms, of which one failed in every trial."""

    setting: str
    edges: str = ""
    failed: int = 0

    def frame(self):
        """Return what `Best.frame` would."""
        rows = [
            ("fedavg", self.setting, 2, 0.123456789, 1, 4, self.failed, self.edges),
            ("fedexp", "lr=1", 2, 0.5, 0, 4, 4 if self.failed else 0, ""),
        ]
        names = "algorithm setting seeds validation_loss undecided tried failed edges"
        return pd.DataFrame(rows, columns=names.split())


def printed(choice, width):
    console = Console(width=width, record=True, file=None)
    table, settings = tables.best(choice, width)
    with console.capture() as shown:
        console.print(table)
    return shown.get().splitlines(), settings


LONG = "lr=0.07415, steps=3, epsilon=0.0004432, server_momentum=0.9015"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_setting_that_has_no_room_in_the_table_is_a_line_of_its_own(width):
    lines, settings = printed(Choice(LONG), width)
    assert settings == [f"fedavg: {LONG}", "fedexp: lr=1"]
    assert lines[0].split() == ["algorithm", "seeds", "validation_loss", "tried"]
    assert "…" not in "".join(lines)


def test_one_that_has_room_stays_in_the_table():
    lines, settings = printed(Choice(LONG), 130)
    assert settings == []
    assert LONG in lines[1]
    assert "0.123457" in lines[1]


def test_columns_come_where_they_say_something():
    lines, _ = printed(Choice("lr=2", edges="algorithms.0.local.lr", failed=1), 120)
    heads = ["algorithm", "setting", "seeds", "validation_loss", "tried", "failed", "at edge"]
    assert lines[0].split("  ")[0] == "algorithm"
    assert all(head in lines[0] for head in heads)
    assert lines[1].rstrip().endswith("1       lr")
    assert "every setting failed" in lines[2]
