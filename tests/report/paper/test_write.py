"""Figures and tables as files: which are written, their sizes, and what is said where they fail."""

import json
import re
import shutil
import sys
import zlib

import pytest

from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.report.gallery import figure
from rayfed.report.paper import sheets
from rayfed.report.paper.sheets import Font, laid_out
from rayfed.report.paper.write import PaperItem, tabular, write
from rayfed.report.read.results import Results
from rayfed.report.tables import TextColumn

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NO = (False, False)


@pytest.fixture(scope="module")
def results(tmp_path_factory, study_writer):
    return Results.read(study_writer(tmp_path_factory.mktemp("s"), seeds=2, rounds=30))


@pytest.fixture
def drawn(monkeypatch):
    """Let nothing be drawn, and return the list of what would be."""
    found = []
    monkeypatch.setattr(sheets, "write_images", found.extend)
    return found


def test_all_that_a_study_has_is_written(results, tmp_path, drawn):
    paths = write(results, tmp_path / "new" / "paper")
    names = {path.name for path in paths}
    assert {
        "table-costs.tex",
        "table-finals.tex",
        "convergence-column.pdf",
        "timeline-full.svg",
    } <= names
    assert not any("walk" in name or "sweep" in name for name in names)
    assert [path for _, path in drawn] == paths[2:]
    assert (
        (tmp_path / "new" / "paper" / "table-costs.tex")
        .read_text()
        .startswith(r"\begin{tabular}{l")
    )


def test_tables_divide_costs_and_final_values(results, tmp_path, drawn):
    costs, finals = write(results, tmp_path, ["table-costs:y=loss,target=0.1", "table-finals"])
    assert (costs.name, drawn) == ("table-costs-loss-0.1.tex", [])
    head = costs.read_text().splitlines()[2]
    assert head.startswith("algorithm & rounds to loss 0.1 & kept from round & simulated time")
    head = finals.read_text().splitlines()[2]
    assert head == r"algorithm & final loss & final accuracy \\"


def test_figures_may_be_panels_of_one_with_one_legend(results, tmp_path, drawn):
    (path, *_) = write(results, tmp_path, ["convergence:x=time_s + round_times"])
    assert path.name == "convergence-time_s+round_times-column.pdf"
    made = {place.stem: sheet.figure for sheet, place in drawn}
    for whole in made.values():
        assert {trace.xaxis for trace in whole.data} == {"x", "x2"}
        assert [trace.name for trace in whole.data if trace.showlegend] == list(results.names)
        headings = [note.text for note in whole.layout.annotations if note.name == "facet"]
        assert headings == ["(a)", "(b)"]
    assert len({made[path.stem].layout[axis].domain for axis in ("xaxis", "xaxis2")}) == 1


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("convergence + timeline", "timeline: is no panel: it has several axes or a colour scale"),
        ("table-costs + convergence", "table-costs: a table is no panel of a figure"),
        ("convergence + nothing", "unknown figure or table 'nothing'"),
    ],
)
def test_what_cannot_be_a_panel_is_refused(results, tmp_path, drawn, what, problem):
    with pytest.raises(ScenarioError, match=f"^{problem}"):
        write(results, tmp_path, [what])
    assert not drawn


def test_all_figures_have_the_one_font(results, tmp_path, drawn):
    write(results, tmp_path, ["convergence", "timeline", "finals"], Font.parse("Times:9"))
    assert {sheet.figure.layout.font.family.partition(",")[0] for sheet, _ in drawn} == {"Times"}
    assert [sheet.scale for sheet, _ in drawn] == pytest.approx([9 / 13 * 96 / 72] * 12)


def test_options_of_a_figure_are_values_of_yaml():
    wanted = PaperItem.parse("timeline:name=FedExP eps=1e-3,seed=2")
    assert wanted.options == {"name": "FedExP eps=1e-3", "seed": 2}
    assert wanted.stem == "timeline-FedExP-eps-1e-3-2"


def test_commas_belong_to_names_and_names_stay_texts():
    wanted = PaperItem.parse("finals:case=alpha = 0.1, cohort = 4,column=loss")
    assert wanted.options == {"case": "alpha = 0.1, cohort = 4", "column": "loss"}
    assert PaperItem.parse("timeline:name=RWSADMM, ours, seed=1").options == {
        "name": "RWSADMM, ours",
        "seed": 1,
    }
    assert PaperItem.parse("timeline:name=10").options == {"name": "10"}


@pytest.fixture(scope="module")
def cases(tmp_path_factory, case_writer):
    """Two algorithms in two cases, one with several seeds in the first alone."""
    ends = {"0.1": {"fedavg": [4, 5], "fedexp": [3, 2]}, "1": {"fedavg": [1], "fedexp": [0.5]}}
    return Results.read(case_writer(tmp_path_factory.mktemp("c"), ends))


def stems(paths):
    return [path.name.removesuffix("-full.svg") for path in paths if path.match("*-full.svg")]


def test_a_figure_is_drawn_of_each_case_unless_one_is_chosen(cases, tmp_path, drawn):
    both = ["finals-alpha-0.1", "finals-alpha-1"]
    assert stems(write(cases, tmp_path, ["finals"])) == both
    assert stems(write(cases, tmp_path, ["finals:case=alpha = 1"])) == both[1:]
    assert stems(write(cases, tmp_path, ["finals:column=loss"])) == [f"{s}-loss" for s in both]
    assert stems(write(cases, tmp_path, ["convergence"])) == ["convergence"]
    assert set(both) < set(stems(write(cases, tmp_path)))
    names = {figure.layout.title.text for figure in (sheet.figure for sheet, _ in drawn)}
    assert names == {None}  # of those files, their names say it


def test_cases_that_differ_in_signs_have_files_of_their_own(tmp_path, run_writer, rows, drawn):
    names = {"a b": 0.1, "a-b": 1, "A/B": 2}
    text = {name: {"partition.alpha": alpha} for name, alpha in names.items()}
    held = {"seeds": [0], "cases": text, "algorithms": [{"name": "a"}, {"name": "b"}]}
    (tmp_path / "scenario.yaml").write_text(json.dumps(held))
    for place, name in enumerate(names):
        for label in "ab":
            folder = f"{label}-{place}-seed0"
            run_writer(tmp_path, label, 0, rows([8, 4], label), folder=folder, setting=name)
    made = stems(write(Results.read(tmp_path), tmp_path / "paper", ["finals"]))
    assert made == ["finals-a-b", "finals-a-b-2", "finals-A-B-3"]


def test_panels_of_an_unnamed_case_are_headed_by_it(cases, tmp_path, drawn):
    write(cases, tmp_path, ["finals + finals:case=alpha = 1"])
    headings = [n.text for n in drawn[0][0].figure.layout.annotations if n.name == "facet"]
    assert headings == ["(a) alpha = 0.1", "(b) alpha = 1"]


def test_a_figure_that_no_case_has_is_refused(cases, tmp_path, drawn):
    with pytest.raises(ScenarioError, match=r"unknown column 'los'; did you mean 'loss'"):
        write(cases, tmp_path, ["finals:column=los"])
    with pytest.raises(ScenarioError, match="unknown case 'alpha = 2'"):
        write(cases, tmp_path, ["finals:case=alpha = 2"])
    assert not drawn


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("convergense", "unknown figure or table 'convergense'; did you mean 'convergence'?"),
        ("convergence:x", "convergence:x: 'x' is no option=value; write convergence:option=value"),
        ("convergence:x=time", "unknown x 'time'; did you mean 'time_s'?"),
        ("table-finals:x=round", "table-finals:x=round: a table takes the options y and target"),
        ("table-costs:y=los", "unknown column 'los'; did you mean 'loss'?"),
        ("sweep", "this study swept neither one number nor two; see `summary`"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(results, tmp_path, what, told):
    with pytest.raises(ScenarioError) as error:
        write(results, tmp_path / "out", [what])
    assert str(error.value) == told
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_named(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(RayfedError, match=r"need kaleido .* pip install 'kaleido>=1.0'$"):
        write(results, tmp_path, ["fairness"])


def test_a_missing_browser_is_named(results, tmp_path, monkeypatch):
    pytest.importorskip("kaleido", reason="needs kaleido")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "none"))
    monkeypatch.setattr("choreographer.browsers.chromium.Chromium.find_browser", lambda **_: None)
    with pytest.raises(RayfedError, match=r"need Chromium or Chrome.*BROWSER_PATH$"):
        write(results, tmp_path, ["fairness"])


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
def test_files_have_the_size_and_the_letters_of_a_paper(results, tmp_path):
    pytest.importorskip("kaleido", reason="needs kaleido")
    sheet = laid_out(figure(results, "convergence", {"x": "time_s"}), "column")
    pdf, svg = tmp_path / "c.pdf", tmp_path / "c.svg"
    sheets.write_images([(sheet, pdf), (sheet, svg)])
    text = svg.read_text("utf-8")
    width, height = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', text).groups())
    x, y = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text).groups())
    assert width == pytest.approx(3.3 * 72)
    assert height / y == pytest.approx(width / x, rel=1e-3)
    sizes = {float(size) * width / x for size in re.findall(r"font-size: ([\d.]+)px", text)}
    assert sizes
    assert all(size == pytest.approx(8, abs=0.1) for size in sizes)
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", text)
    content = pdf.read_bytes()
    box = [float(n) for n in re.search(rb"/MediaBox \[([^\]]*)\]", content)[1].split()]
    assert box == pytest.approx([0, 0, 3.3 * 72, height], abs=0.05)
    assert letters(content) == pytest.approx([8] * len(letters(content)), abs=0.1)
    assert len(letters(content)) > 10
    assert b"/Type3" not in content  # which publishers refuse


def letters(content):
    """Return the height of every text of a PDF file in points: font size, matrix, page's unit."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.S)
    pages = []
    for stream in streams:
        try:
            pages.append(zlib.decompress(stream).decode("latin-1"))
        except zlib.error:
            continue
    page = next(text for text in pages if " Tf" in text)
    unit = float(page.split()[0])
    text = r"([\d.]+) 0 0 [\d.]+ \S+ \S+ cm\n(?:(?!cm\n)[\s\S])*?BT\n/F\d+ ([\d.]+) Tf"
    return [float(scale) * float(size) * unit for scale, size in re.findall(text, page)]


def test_a_table_is_a_tabular_of_booktabs():
    columns = [
        TextColumn("algorithm", ("fed_avg", "A&B {50%}"), (0, 1), NO),
        TextColumn("final loss", ("0.5 ± 0.1", "-"), (0.5, float("nan")), (True, False)),
    ]
    assert tabular(columns).splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"algorithm & final loss \\",
        r"\midrule",
        r"fed\_avg & \textbf{0.5 $\pm$ 0.1} \\",
        r"A\&B \{50\%\} & - \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def cells(values, spreads, texts=None, clock=""):
    """Return the numbers of a column as they stand in LaTeX."""
    shown = tuple(map(str, values)) if texts is None else texts
    column = TextColumn("a", shown, values, (False,) * len(values), clock, spreads)
    lines = tabular([column]).splitlines()
    return lines[2].removesuffix(r" \\"), [line.removesuffix(r" \\") for line in lines[4:-2]]


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "spreads", "shown"),
    [
        # The median deviation, 0.0124, has two digits with three decimals.
        (
            (0.1136, 0.0674, 0.5),
            (0.0449, 0.0124, 0.001),
            [r"0.114 $\pm$ 0.045", r"0.067 $\pm$ 0.012", r"0.500 $\pm$ 0.001"],
        ),
        # The smallest mean has two digits, however large the deviations are.
        ((0.02, 1.0), (0.5, 0.5), [r"0.020 $\pm$ 0.500", r"1.000 $\pm$ 0.500"]),
        # The largest mean has four digits, however small they are.
        ((0.5, 2.0), (1e-9, 1e-9), [r"0.500 $\pm$ $<$0.001", r"2.000 $\pm$ $<$0.001"]),
        ((38, 23), (NAN, NAN), ["38", "23"]),
        ((38, 25.67), (NAN, NAN), ["38.0", "25.7"]),
        ((1234.5, 2000.0), (300.0, 400.0), [r"1,234 $\pm$ 300", r"2,000 $\pm$ 400"]),
        (
            (0.5, 2.3456e-9, 0.0),
            (0.1, 1e-10, 0.0),
            [
                r"(5.00 $\pm$ 1.00) $\cdot 10^{-1}$", r"(2.35 $\pm$ 0.10) $\cdot 10^{-9}$",
                r"0.00 $\pm$ 0.00",
            ],
        ),
        ((0.0, 0.0), (0.0, NAN), [r"0 $\pm$ 0", "0"]),
        ((0.0, 0.0), (0.25, 0.5), [r"0.00 $\pm$ 0.25", r"0.00 $\pm$ 0.50"]),
        ((0.5, 1.0), (float("inf"), 0.1), ["0.50", r"1.00 $\pm$ 0.10"]),
        ((-0.5, 1.25), (0.1, 0.1), [r"$-$0.50 $\pm$ 0.10", r"1.25 $\pm$ 0.10"]),
        ((-2.5e-9, 1.0), (NAN, NAN), [r"$-$2.50 $\cdot 10^{-9}$", "1.00"]),
    ],
)  # fmt: skip
def test_numbers_of_a_column_have_equal_precision(values, spreads, shown):
    assert cells(values, spreads)[1] == shown


def test_a_column_of_costs_has_one_unit_in_its_title():
    texts = ("1 h 35 min", "5 min 20 s", "- (2 of 3 seeds)")
    title, shown = cells((5700.0, 320.0, NAN), (1440.0, 60.0, NAN), texts, "time_s")
    assert title == "a (min)"
    assert shown == [r"95.0 $\pm$ 24.0", r"5.3 $\pm$ 1.0", "- (2 of 3 seeds)"]


def test_a_value_of_unfinished_runs_is_marked():
    assert cells((0.5, 0.25), (NAN, NAN), ("0.5 so far", "0.25"))[1] == ["0.500 so far", "0.250"]


def test_tables_of_a_study_have_equal_decimals(results, tmp_path, drawn):
    for path in write(results, tmp_path, ["table-costs", "table-finals"]):
        rows = [line.split(" & ")[1:] for line in path.read_text().splitlines()[4:-2]]
        for column in zip(*rows, strict=True):
            decimals = {len(digits) for cell in column for digits in re.findall(r"\.(\d+)", cell)}
            assert len(decimals) <= 1
    assert r" $\pm$ " in path.read_text()


def test_signs_that_mean_something_to_latex_are_shown():
    columns = [TextColumn("a", ("~^\\<>", "$#∞"), (0, 1), NO)]
    rows = tabular(columns).splitlines()[4:6]
    assert rows == [
        r"\textasciitilde{}\textasciicircum{}\textbackslash{}\textless{}\textgreater{} \\",
        r"\$\#$\infty$ \\",
    ]


def test_no_name_is_an_option_of_the_end_of_the_row_before():
    """After a row LaTeX takes an asterisk, or a length in brackets, as options of its end."""
    names = TextColumn("a", ("a|b", "[x]", "*y"), (0, 1, 2), (False,) * 3)
    rows = tabular([names]).splitlines()[4:7]
    assert rows == [r"a\textbar{}b \\", r"{[}x] \\", r"{*}y \\"]
