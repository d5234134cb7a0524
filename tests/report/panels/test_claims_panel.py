"""The claims of a published study on the page of a part."""

import json

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.report.page.report import page
from rayfed.report.panels import claims
from rayfed.report.read.results import Results

TOLD = {
    "study": "own",
    "source": "A. <Author>, 2024",
    "length": "short",
    "claims": [
        {"says": "Fast is <fast>.", "where": "t. 1", "measured": "3, 2", "status": "holds",
         "remark": ""},
        {"says": "Slow.", "where": "t. 2", "measured": "never", "status": "not reproduced",
         "remark": "other data"},
        {"says": "No.", "where": "t. 3", "measured": "1", "status": "fails", "remark": ""},
    ],
}  # fmt: skip


def test_without_a_file_there_is_no_section(tmp_path):
    assert claims.claims_of(tmp_path) == {}


def test_a_broken_file_is_one_line(tmp_path):
    (tmp_path / "claims.json").write_text("{")
    with pytest.raises(ScenarioError, match=r"claims\.json: cannot be read .*; was it edited\?"):
        claims.claims_of(tmp_path)


@pytest.mark.parametrize(
    "edited",
    [
        {"claims": [{"says": "Fast.", "where": "t. 1", "status": "holds"}], "source": "A."},
        {"claims": [TOLD["claims"][0] | {"measured": [3, 2]}], "source": "A."},
        {"claims": ["Fast."], "source": "A."},
        {"claims": TOLD["claims"]},
    ],
    ids=["key", "list", "text", "source"],
)
def test_edited_claims_are_one_line(tmp_path, edited):
    (tmp_path / "claims.json").write_text(json.dumps(edited))
    with pytest.raises(ScenarioError, match=r"claims\.json: cannot be read .*; was it edited\?"):
        claims.claims_of(tmp_path)


def test_the_page_tells_which_claims_hold(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([1.0, 0.5]))
    (tmp_path / "claims.json").write_text(json.dumps(TOLD))
    text = page(Results.read(tmp_path))
    assert "1 of 3 claims of the source hold; failing: 1; not reproduced: 1" in text
    assert "<td>Fast is &lt;fast&gt;.</td><td>yes</td><td>3, 2</td><td>t. 1</td>" in text
    assert "<td>not reproduced: other data</td>" in text
    assert "Source: A. &lt;Author&gt;, 2024." in text
