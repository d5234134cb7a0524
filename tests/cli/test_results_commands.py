"""The commands that make something of result folders: `figures`, `compare` and `export`."""

import json

import pytest

import rayfed

STUDY = {
    "name": "small",
    "seeds": [0],
    "rounds": 2,
    "problem": {
        "name": "least-squares",
        "dataset": {"name": "linear", "features": 2, "samples": 5},
    },
    "clients": {"count": 3},
    "algorithms": ["fedavg", "fedexp"],
    "executor": "serial",
}


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Two result folders that differ in their problem."""
    folder = tmp_path_factory.mktemp("studies")
    rayfed.run(STUDY, out=folder / "a", page=False)
    rayfed.run(STUDY, out=folder / "b", overrides={"problem.l2": 0.5}, page=False)
    return folder


def test_the_answer_of_the_page_stands_below_the_table(studies, command, tmp_path):
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY))
    status, out, _ = command("run", "study.yaml", "--out", "here")
    answer = rayfed.load(tmp_path / "here").answer
    assert status == 0
    assert out.splitlines()[-2:] == [answer, "page: here/report.html"]
    page = (tmp_path / "here" / "report.html").read_text("utf-8").replace("\u00a0", " ")
    sentence, target = answer.split(" Target: ")
    assert f'id="answer">{sentence}</h2>' in page
    assert f'id="answer-target">Target: {target}</p>' in page
    assert answer in " ".join(repr(rayfed.load(tmp_path / "here")).split())


def test_a_study_with_cases_prints_algorithms_by_cases(command, tmp_path):
    levels = STUDY | {"grid": {"participation.cohort": [1, 2]}}
    (tmp_path / "study.yaml").write_text(json.dumps(levels))
    _, out, _ = command("run", "study.yaml", "--out", "here", "--no-page")
    heads, *rows = [line.split() for line in out.splitlines()[1:4]]
    assert heads == ["final", "loss", "cohort", "=", "1", "cohort", "=", "2"]
    assert [row[0] for row in rows] == ["fedavg", "fedexp"]


def test_compare_prints_the_comparison_its_warnings_and_the_page(studies, command, tmp_path):
    status, out, err = command("compare", studies / "a", studies / "b", "--out", "new/page.html")
    assert status == 0
    lines = out.splitlines()
    names = [line.partition(")")[0] for line in lines[1:-1]]
    assert names == [f"{name} (l2={l2}" for name in ("fedavg", "fedexp") for l2 in (0, 0.5)]
    assert lines[-1] == "page: new/page.html"
    assert "fedexp (l2=0.5)" in (tmp_path / "new" / "page.html").read_text("utf-8")
    assert err.startswith(
        "warning: These folders do not minimise the same function of the same rows: "
    )
    assert "problem.l2 is 0 in a, 0.5 in b" in err


def test_compare_prints_the_answer_of_its_page(studies, command, tmp_path):
    rayfed.run(STUDY, out=tmp_path / "longer", overrides={"rounds": 3}, page=False)
    _, out, err = command("compare", studies / "a", "longer", "--out", "page.html")
    page = (tmp_path / "page.html").read_text("utf-8").replace("\u00a0", " ")
    assert err == ""
    assert f'id="answer">{out.splitlines()[-2]}</h2>' in page


def test_figures_names_its_files(studies, command, tmp_path):
    words = ("figures", studies / "a", "--for", "paper", "--out", "p", "--what", "table-finals")
    assert command(*words) == (0, "p/table-finals.tex\n", "")
    assert (tmp_path / "p" / "table-finals.tex").read_text().startswith(r"\begin{tabular}")


def test_figures_refuse_what_is_no_font(studies, command):
    words = ("figures", studies / "a", "--what", "table-finals", "--font", "Times;9")
    status, out, err = command(*words)
    assert (status != 0, out) == (True, "")
    assert "font: 'Times;9' is no font; write family:points, such as Times:9" in err


def test_export_says_where_and_what_to_do_next(studies, command, tmp_path):
    status, out, err = command("export", studies / "a", "--csv", "--to", "csv")
    assert (status, err) == (0, "")
    assert out == "csv: csv\n  read it by: pandas.read_csv('csv/rounds.csv')\n"
    assert (tmp_path / "csv" / "events.csv").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            (),
            "say what: --to model.safetensors, --csv, --tensorboard, --mlflow or --wandb-offline",
        ),
        (
            ("--csv", "--mlflow", "--to", "x"),
            "--to: is for one of them; give it once for each, or leave it out",
        ),
        (("--csv", "--run", "fedavg-seed1"), "unknown run 'fedavg-seed1'; did you mean"),
    ],
)
def test_export_says_what_is_missing_in_one_line(studies, command, words, told):
    status, out, err = command("export", studies / "a", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"rayfed: {told}")
    assert len(err.splitlines()) == 1
