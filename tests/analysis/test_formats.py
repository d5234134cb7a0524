"""The table as text for papers: odd labels must not break it."""

import csv
import io

import numpy as np
import pytest

from analysis.formats import csv_text, latex, markdown
from analysis.tables import Column


@pytest.fixture
def table():
    return [
        Column("algorithm", ("a_b|c", "50% & <x>"), (0.0, 1.0), (False, False)),
        Column("final loss", ("0.1 ± 0.02", "-"), (0.1, np.nan), (True, False)),
    ]


def test_markdown(table):
    assert markdown(table) == (
        "| algorithm | final loss |\n"
        "| --- | ---: |\n"
        "| a\\_b\\|c | **0.1 ± 0.02** |\n"
        "| 50% & \\<x\\> | - |\n"
    )


def test_latex(table):
    assert latex(table) == (
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "algorithm & final loss \\\\\n"
        "\\midrule\n"
        "a\\_b|c & \\textbf{0.1 $\\pm$ 0.02} \\\\\n"
        "50\\% \\& \\textless{}x\\textgreater{} & - \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_csv_reads_back(table):
    rows = list(csv.reader(io.StringIO(csv_text(table))))
    assert rows == [["algorithm", "final loss"], ["a_b|c", "0.1 ± 0.02"], ["50% & <x>", "-"]]
