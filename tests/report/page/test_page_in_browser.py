"""The page in a real browser: what a reader sees, presses and drags."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from rayfed.core.columns import Column
from rayfed.problems.picture import Picture
from rayfed.report.figures.palette import DARK, LIGHT
from rayfed.report.figures.style import canvas
from rayfed.report.page import report
from rayfed.report.panels.against import against
from rayfed.report.panels.answers import headline
from rayfed.report.panels.base import RunPanel, Section
from rayfed.report.panels.convergence import _label_place, convergence
from rayfed.report.panels.ends import finals
from rayfed.report.panels.mixing import mixing
from rayfed.report.panels.walk import walk
from rayfed.report.paper.write import tabular
from rayfed.report.pivot import pivot
from rayfed.report.read import units
from rayfed.report.read.curves import Curve
from rayfed.report.read.results import Results
from rayfed.report.tables import summary, text_columns
from tests.fakes.chromium import CHROMIUM, DRIVER, look, opened, wait

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory, study_writer, walk_writer, personal_writer):
    folder = study_writer(tmp_path_factory.mktemp("page") / "study", seeds=3, rounds=40)
    line = Picture.of_curve(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]), "the line y = 1 - x")
    np.savez(folder / "fedavg-seed0" / "fit.npz", allow_pickle=False, **line.arrays())
    ring = [(k, (k + 1) % 20) for k in range(20)]
    way, chord = [k % 20 for k in range(40)], [*ring, (0, 10)]
    walk_writer(folder / "fedavg-seed0", way, [ring])
    walk_writer(folder / "FedExP eps=1e-3-seed0", way[::-1], [ring, chord])
    grows = np.linspace(0, 1, 5)[:, None] * np.linspace(0.5, 1, 20)
    for name in ("fedavg-seed0", "FedExP eps=1e-3-seed0", "FedExP eps=1e-3-seed1"):
        personal_writer(
            folder / name, range(0, 41, 10), distance=3 * grows, personal_accuracy=grows,
            accuracy=0.5 * grows, personal_loss=1 - grows, loss=1.0,
        )  # fmt: skip
    report.write(folder)
    return Results.read(folder)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = opened(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def open_page(driver, results):
    driver.get((results.folder / "report.html").as_uri())
    wait(driver, "document.body.dataset.ready === 'true'")
    driver.execute_script(
        "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
    )
    wait(driver, "[...document.querySelectorAll('.more .plot')].every((one) => one.on)")


@pytest.fixture(scope="module")
def desktop(browser, results):
    """The page on a desk, opened once."""
    browser.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    look(browser, 1280, 800)
    open_page(browser, results)
    return browser


# Every press draws anew, so only what was changed is pressed.
FIRST_CHOICES = """
const first = {x: 'round', y: 'loss', smooth: '0', lines: 'mean', name: 'fedavg', seed: '0',
               span: 'first', walk: '0'};
for (const [kind, value] of Object.entries(first)) {
  const button = document.querySelector(`[data-${kind}='${value}']`);
  const moved = kind === 'y' && ['target', 'log'].some((k) => page.view[k] !== page.data.view[k]);
  if (moved || button.getAttribute('aria-pressed') !== 'true') button.click();
}
document.activeElement.blur();
"""


@pytest.fixture
def page(desktop, results):
    """The page on a desk with the first choices made, whatever the test before has chosen."""
    look(desktop, 1280, 800)
    if desktop.execute_script("return page.view.hidden.size || window.printed"):
        open_page(desktop, results)
    desktop.execute_script(FIRST_CHOICES)
    return desktop


@pytest.fixture
def phone(desktop):
    """The page turned to the width of a phone."""
    look(desktop, 390, 844)
    wait(desktop, "document.body.classList.contains('keyed')")
    return desktop


def press(driver, selector):
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def select(driver, kind, value):
    """Choose from a list, or from buttons where there are few."""
    driver.execute_script(
        "const list = document.querySelector(`select[data-${arguments[0]}]`);"
        "if (!list) document.querySelector(`[data-${arguments[0]}=${arguments[1]}]`).click();"
        "else { list.value = arguments[1]; list.dispatchEvent(new Event('change')); }",
        kind,
        value,
    )


def layout(driver, name="convergence"):
    text = driver.execute_script(f"return JSON.stringify(document.getElementById('{name}').layout)")
    return json.loads(text)


def title(driver, name="convergence"):
    return driver.find_element(By.ID, f"{name}-title").text


def test_nothing_is_asked_of_any_network_and_nothing_complains(page):
    assert [entry["message"] for entry in page.get_log("browser")] == []
    messages = (json.loads(entry["message"])["message"] for entry in page.get_log("performance"))
    requests = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
    # The browser's own first tab asks for things too.
    ours = [r for r in requests if r["documentURL"].startswith("file:")]
    asked = [request["request"]["url"] for request in ours]
    assert asked
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked


def test_text_comes_first_and_nothing_jumps(page):
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    assert wait(page, paint) < 1000
    page.execute_script(
        "window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((e) => "
        "window.moved += e.value)).observe({type: 'layout-shift', buffered: true});"
    )
    time.sleep(0.2)
    assert page.execute_script("return window.moved") < 0.01


@pytest.mark.parametrize("x", ["round", "time_s", "bytes_up", "updates"])
@pytest.mark.parametrize("y", ["loss", "accuracy", "server_lr"])
def test_buttons_draw_what_the_figure_function_draws(page, results, x, y):
    press(page, f"[data-x={x}]")
    press(page, f"[data-y={y}]")
    draws_the_same(page, convergence(results, x, y))


def draws_the_same(page, expected):
    wait(page, "document.getElementById('convergence').layout.yaxis.title.text === arguments[0]",
         expected.layout.yaxis.title.text)  # fmt: skip
    assert layout(page)["xaxis"]["title"]["text"] == expected.layout.xaxis.title.text
    assert layout(page)["yaxis"]["type"] == expected.layout.yaxis.type
    assert layout(page)["yaxis"]["range"] == pytest.approx(expected.layout.yaxis.range, rel=1e-4)
    assert layout(page)["hovermode"] == expected.layout.hovermode
    drawn = page.execute_script(
        "return document.getElementById('convergence').data"
        ".map((t) => [t.meta, [...t.x], [...t.y]])"
    )
    traces = {tuple(t.meta.values()): t for t in expected.data}
    assert len(drawn) == len(traces)
    for meta, xs, ys in drawn:
        trace = traces[tuple(meta.values())]
        assert xs == pytest.approx(list(trace.x), rel=1e-5, abs=1e-9)
        assert ys == pytest.approx(list(trace.y), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("x", "lines"), [("round", "seeds"), ("bytes_up", "mean")])
def test_smoothed_lines_and_single_seeds_are_those_of_the_figure_function(page, results, x, lines):
    for button in (f"[data-x={x}]", "[data-smooth='0.6']", f"[data-lines={lines}]"):
        press(page, button)
    draws_the_same(page, convergence(results, x, smooth=0.6, seeds=lines == "seeds"))
    assert "smooth=0.6" in page.current_url
    assert ("lines=seeds" in page.current_url) == (lines == "seeds")


@pytest.mark.parametrize("lines", ["mean", "seeds"])
def test_a_diamond_at_the_right_edge_is_whole(page, lines):
    """The target is what a run has at its end and nowhere before."""
    press(page, f"[data-lines={lines}]")
    target = page.execute_script(
        "const { curves: { runs }, names } = page.data.panels.convergence.parts[0];"
        "const last = Math.max(...runs.map(({ data }) => data.round.at(-1)));"
        "const ranked = new Set(names.filter((one) => !one.baseline).map(({ name }) => name));"
        "const at = runs.find(({ name, data: { loss, round } }) => ranked.has(name) &&"
        "  round.at(-1) === last && loss.slice(0, -1).every((value) => value > loss.at(-1)));"
        "return at.data.loss.at(-1);"
    )
    page.execute_script(
        "const field = document.getElementById('target-value'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('change'));",
        str(target),
    )
    edge = "document.querySelector('#convergence .nsewdrag').getBoundingClientRect().right"
    dots = (
        "[...document.querySelectorAll('#convergence .trace')]"
        ".filter((one) => one.__data__[0].trace.meta.part === 'crossing')"
        ".flatMap((one) => [...one.querySelectorAll('.point')])"
        f".filter((dot) => dot.getBoundingClientRect().right > {edge} + 2)"
    )
    (dot,) = wait(page, f"{dots}.length && {dots}")
    clipped = page.execute_script("return arguments[0].closest('[clip-path]')?.outerHTML", dot)
    assert clipped is None


def test_the_scale_of_single_seeds_on_the_page_is_that_of_their_mean(
    elsewhere, tmp_path, run_writer, rows
):
    for seed, last in ((0, 0.5), (1, 1.5)):
        run_writer(tmp_path, "a", seed, rows([8, last]))
    page = elsewhere(tmp_path)
    press(page, "[data-lines=seeds]")
    wait(page, "page.view.seeds")
    draws_the_same(page, convergence(Results.read(tmp_path), seeds=True))
    assert layout(page)["yaxis"]["type"] == "linear"


def test_values_that_differ_by_rounding_alone_have_axes_with_ticks(
    elsewhere, tmp_path, run_writer, rows
):
    for seed, loss in ((0, np.log(2)), (1, np.nextafter(np.log(2), 1))):
        run_writer(tmp_path, "a", seed, rows([loss]))
    page = elsewhere(tmp_path)
    for ticks in ("#convergence .ytick text", "#finals .xtick text"):
        assert len(page.find_elements(By.CSS_SELECTOR, ticks)) > 1
    assert [entry["message"] for entry in page.get_log("browser")] == []


def answer(driver, place="answer"):
    text = driver.execute_script("return document.getElementById(arguments[0]).textContent", place)
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize("y", ["loss", "accuracy"])
@pytest.mark.parametrize("x", ["round", "time_s", "bytes_up", "updates"])
def test_the_answer_is_of_the_column_and_the_clock_with_numbers_of_the_table(page, results, x, y):
    press(page, f"[data-y={y}]")
    press(page, f"[data-x={x}]")
    frame = summary(results, y)
    assert answer(page) == headline(results, frame, x)
    names, *columns = text_columns(results, frame)
    shown = next(column for column in columns if column.clock == x)
    costs = zip(shown.values, shown.texts, names.texts, strict=True)
    _, least, _ = min(cost for cost in costs if cost[2] in results.rivals)
    assert least.partition(" ± ")[0] in answer(page)
    assert answer(page, "answer-target").startswith(f"Target: {y} ")
    press(page, "[data-y=server_lr]")  # nothing is won by it
    assert answer(page) == headline(results, frame, x)


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def test_after_every_button_the_numbers_of_the_answer_stand_in_the_table(
    elsewhere, tmp_path, run_writer, rows
):
    """One seed of "c" diverges."""
    ends = {"a": (0.2, 0.25, 0.22), "b": (0.4, 0.38, 0.41), "c": (0.3, 0.28, 40)}
    falls = {"a": 0.5, "b": 0.8, "c": 0.35}
    for name, lasts in ends.items():
        for seed, last in enumerate(lasts):
            loss = last + (0.7 - last) * (falls[name] + seed / 40) ** np.arange(20)
            run = rows(loss, name, seed, accuracy=1 / (1 + loss), test_loss=loss * 1.1)
            run_writer(tmp_path, name, seed, run.assign(server_lr=1 + loss))
    page = elsewhere(tmp_path)
    kinds = "return [...document.querySelectorAll(`[data-${arguments[0]}]`)].map((b) => b.dataset"
    xs, ys = (page.execute_script(f"{kinds}[arguments[0]])", kind) for kind in "xy")
    assert {"round", "time_s", "bytes_up", "updates"} <= set(xs)
    assert {"loss", "test_loss", "accuracy", "server_lr"} <= set(ys)
    # The worst end of the runs that count: 0.41 + 0.29 0.85^19 = 0.423, rounded up.
    assert answer(page, "answer-target") == "Target: loss 0.43, reached by 8 of 9 runs."
    cells = (
        "const head = document.querySelector(`#results [data-clock=${arguments[0]}]`);"
        "return [head.parentElement.querySelector('[data-clock=round]').textContent,"
        " ...[...document.querySelectorAll('#results td:nth-child(' + (head.cellIndex + 1) + ')')]"
        ".map((cell) => cell.textContent)]"
    )
    for y in ys:
        press(page, f"[data-y={y}]")
        default = page.execute_script("return page.view.target")
        for share in (1, 0.9, 1.1, 0.5) if default else ():
            page.execute_script(
                "page.panel('convergence').setTarget(arguments[0])", default * share
            )
            for x in xs:
                press(page, f"[data-x={x}]")
                shown = page.execute_script(cells, x)
                reached = [text.partition(" ±")[0] for text in shown if not text.startswith("-")]
                first, *_ = answer(page).partition(";")
                numbers = {number for text in reached for number in NUMBER.findall(text)}
                assert set(NUMBER.findall(first)) == numbers, (y, x, share, first, shown)


def test_the_answer_to_a_target_of_the_readers_is_when_it_was_reached(page):
    page.execute_script("page.panel('convergence').setTarget(0.3)")
    assert answer(page).startswith("loss 0.3 reached: FedExP eps=1e-3 after")
    assert answer(page, "answer-target") == ""


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ("round", "loss 2 reached: b after 1 round, “a, late” after 2 rounds, c never"),
        ("time_s", "loss 2 reached: b after 2 s, “a, late” after 4 s, c never"),
        ("bytes_up", "loss 2 reached: b after 100 B, “a, late” after 200 B, c never"),
        ("updates", "loss 2 reached: b after 5 updates, “a, late” after 10 updates, c never"),
    ],
)
def test_the_reading_on_every_clock(page, x, said):
    """Three runs by hand: a row is 2 s, 100 bytes and 5 updates."""
    losses = {"a, late": [8, 6, 2], "b": [8, 2, 1], "c": [8, 8, 8]}
    clocks = {"round": [0, 1, 2], "time_s": [0, 2, 4]}
    clocks |= {"bytes_up": [0, 100, 200], "updates": [0, 5, 10]}
    runs = [{"name": n, "seed": 0, "data": clocks | {"loss": v}} for n, v in losses.items()]
    columns = {"loss": {"title": "loss", "better": "lower", "leaders": list(losses)}}
    data = {"runs": runs, "columns": columns}
    names = [{"name": name, "family": name, "rival": True} for name in losses]
    view = {"x": x, "y": "loss", "target": 2}
    text = page.execute_script("return curves.reading(...arguments)", data, names, view)
    assert text.replace("\u00a0", " ") == said


def test_scale_is_linear_or_log(page):
    press(page, "[data-scale=log]")
    wait(page, "document.getElementById('convergence').layout.yaxis.type === 'log'")
    press(page, "[data-scale=linear]")
    wait(page, "document.getElementById('convergence').layout.yaxis.type === 'linear'")
    assert (
        page.find_element(By.CSS_SELECTOR, "[data-scale=linear]").get_attribute("aria-pressed")
        == "true"
    )


def line_at(driver):
    return layout(driver)["shapes"][0]["y0"]


def test_the_target_is_typed_in(page):
    field = page.find_element(By.ID, "target-value")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.NULL, "0.3", Keys.TAB)
    wait(page, "document.getElementById('convergence').layout.shapes[0].y0 === 0.3")
    assert answer(page).startswith("loss 0.3 reached: ")


def test_the_target_moves_with_the_arrow_keys(page):
    before = line_at(page)
    page.find_element(By.ID, "target-slider").send_keys(Keys.ARROW_RIGHT * 20)
    wait(page, f"document.getElementById('convergence').layout.shapes[0].y0 > {before}")


def test_the_target_line_is_dragged(page):
    before = line_at(page)
    page.execute_script("document.getElementById('convergence').scrollIntoView()")
    line = page.find_element(By.CSS_SELECTOR, "#convergence .shapelayer path")
    ActionChains(page).move_to_element(line).click_and_hold().move_by_offset(
        0, -60
    ).release().perform()
    wait(page, f"document.getElementById('convergence').layout.shapes[0].y0 > {before}")
    after = layout(page)["shapes"][0]
    assert after["y0"] == after["y1"]
    assert (after["x0"], after["x1"]) == (0, 1)
    assert units.number(after["y0"]) in answer(page)


def test_hovering_shows_all_algorithms(page, results):
    page.execute_script("document.getElementById('convergence').scrollIntoView()")
    figure = page.find_element(By.ID, "convergence")
    ActionChains(page).move_to_element_with_offset(figure, -60, 0).perform()
    text = wait(page, "document.querySelector('#convergence .hoverlayer')?.textContent")
    assert all(name in text for name in results.names)


def column(driver, number):
    return driver.execute_script(
        "return [...document.querySelectorAll('#results tbody tr')]"
        ".map((row) => row.cells[arguments[0]].textContent)",
        number,
    )


def test_the_table_sorts_both_ways_with_missing_values_last(page):
    heads = page.find_elements(By.CSS_SELECTOR, "#results th button")
    assert heads[1].text.startswith("rounds to")
    heads[1].send_keys(Keys.ENTER)
    rising = [float(text.split()[0]) for text in column(page, 1) if not text.startswith("-")]
    assert rising == sorted(rising)
    assert len(rising) >= 2
    heads[1].send_keys(Keys.ENTER)
    falling = column(page, 1)
    assert [float(text.split()[0]) for text in falling[: len(rising)]] == rising[::-1]
    assert all(text.startswith("-") for text in falling[len(rising) :])
    assert heads[1].find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"


def shown_table(driver):
    """Return the rows of the table by name: pairs of a text and whether it is the best."""
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#results tbody tr')].map((row) => [...row.cells]"
        ".map((cell) => [cell.textContent, cell.matches('.best')]))"
    )
    return {row[0][0]: row[1:] for row in rows}


def written_table(results, y, target):
    table = text_columns(results, summary(results, y, target))
    rows = zip(*(zip(column.texts, column.best, strict=True) for column in table), strict=True)
    return {row[0][0]: [list(cell) for cell in row[1:]] for row in rows}


def test_the_table_follows_the_target_and_the_column(page, results):
    opening = shown_table(page)
    # 0.035 is reached by some of the seeds of some algorithms.
    for y, target in (("loss", 0.3), ("loss", 0.035), ("accuracy", 0.9), ("loss", 1e-9)):
        press(page, f"[data-y={y}]")
        page.execute_script("page.panel('convergence').setTarget(arguments[0])", target)
        assert shown_table(page) == written_table(results, y, target)
        head = page.find_element(By.CSS_SELECTOR, "#results [data-clock=round]").text
        assert head.replace("\n", " ").startswith(f"rounds to {y} {units.number(target)}")
    press(page, "[data-y=server_lr]")  # has no target: the table stays
    assert shown_table(page) == written_table(results, "loss", 1e-9)
    press(page, "[data-y=loss]")
    assert shown_table(page) == opening


@pytest.mark.parametrize(
    ("b", "c", "best"),
    [
        ((20, 21, 25), (30, 33, 35), True),
        ((4, 5, 25), (30, 33, 35), False),  # erratic
        ((4, 4, 5), (5, 6, 5), False),  # within one evaluated row
        ((20, 21, 50), (30, 33, 35), False),  # one seed never reaches it, and three are too few
        ((20, 21, 22, 23, 24, 25, 26, 50), (30, 33, 35, 30, 33, 35, 36, 37), True),  # 2 / 2^8 * 2
        ((4, 5, 50, 7, 8), None, False),  # 2 / 2^5 exceeds 5 %
        ((4, 5, 50, 7, 8, 9), None, True),  # 2 / 2^6 does not
        ((*[50] * 9, 2), None, True),  # 9 of 10 signs: 22 / 2^10
        ((*[50] * 8, 2, 2), None, False),  # 8 of 10: 112 / 2^10
    ],
)
def test_what_is_better_is_bold_for_a_target_of_the_readers(
    elsewhere, tmp_path, run_writer, rows, b, c, best
):
    """All lose 8 until the round in which they reach loss 1; "a" needs 3, 4, 5, 3, 4 and so on."""
    rounds = {"a": tuple(3 + seed % 3 for seed in range(len(b))), "b": b, "c": c or ()}
    for name, needed in rounds.items():
        for seed, number in enumerate(needed):
            loss = [8.0] * number + [1.0] * (40 - number) if number < 40 else [8.0] * 40
            run_writer(tmp_path, name, seed, rows(loss, name, seed))
    page = elsewhere(tmp_path)
    page.execute_script("page.panel('convergence').setTarget(2)")
    shown = shown_table(page)
    assert [cell[1] for cell in shown["a"][:5]] == [best] * 5
    assert shown == written_table(Results.read(tmp_path), "loss", 2.0)


def test_energy_follows_the_target(elsewhere, tmp_path, run_writer, rows):
    for name, joules in (("a", 300.0), ("b", 5000.0)):
        spent = np.array([0.0, 1.0, 1.0, 1.0]) * joules
        energy = {"energy_j": spent, "energy_radio_j": 0 * spent, "energy_wasted_j": 0 * spent}
        run_writer(tmp_path, name, 0, rows([8, 4, 2, 1], name, **energy))
    page = elsewhere(tmp_path)
    page.execute_script("page.panel('convergence').setTarget(2)")
    shown = shown_table(page)
    assert [shown[name][5][0] for name in "ab"] == ["600 J", "10 kJ"]  # of two rounds
    assert shown == written_table(Results.read(tmp_path), "loss", 2.0)


def test_a_run_that_may_still_reach_a_target_takes_no_part(elsewhere, tmp_path, run_writer, rows):
    for seed in range(6):
        run_writer(tmp_path, "a", seed, rows([8, 2, 1]))
        run_writer(tmp_path, "b", seed, rows([8, 7, 7, 7, 7, 7, 2, 1]))
        run_writer(tmp_path, "c", seed, rows([8, 7]), status="running")
    page = elsewhere(tmp_path)
    page.execute_script("page.panel('convergence').setTarget(1.5)")
    shown = shown_table(page)
    assert [shown[name][0][1] for name in "abc"] == [True, False, False]
    assert shown == written_table(Results.read(tmp_path), "loss", 1.5)


def test_a_sorted_table_stays_sorted_when_the_target_moves(page):
    head = page.find_elements(By.CSS_SELECTOR, "#results th button")[1]
    head.send_keys(Keys.ENTER)
    if head.find_element(By.XPATH, "..").get_attribute("aria-sort") != "ascending":
        head.send_keys(Keys.ENTER)
    page.execute_script("page.panel('convergence').setTarget(0.3)")
    found = [float(cells[0][0].split(" ")[0]) for cells in shown_table(page).values()]
    assert found == sorted(found)


@pytest.mark.parametrize("kind", ["markdown", "csv", "latex"])
def test_the_table_is_copied(page, kind):
    press(page, f"[data-copy={kind}]")
    assert wait(page, "document.querySelector('.copied').textContent").startswith("Copied as ")
    assert "fedavg" in page.execute_script("return page.panel('costs').text(arguments[0])", kind)


ODD = (
    "<thead><tr><th><button>algorithm</button></th><th><button>final loss</button></th></tr>"
    "</thead><tbody><tr><td>a_b|c, d</td><td class='best'>0.1 ± 0.02</td></tr>"
    "<tr><td>50% &amp; &lt;x&gt;</td><td>-</td></tr><tr><td>[x]</td><td>*</td></tr></tbody>"
)
COPIES = {
    "markdown": "| algorithm | final loss |\n| --- | ---: |\n| a\\_b\\|c, d | **0.1 ± 0.02** |\n"
    "| 50% & \\<x\\> | - |\n| [x] | \\* |\n",
    "csv": 'algorithm,final loss\n"a_b|c, d",0.1 ± 0.02\n50% & <x>,-\n[x],*\n',
    "latex": "\\begin{tabular}{lr}\n\\toprule\nalgorithm & final loss \\\\\n\\midrule\n"
    "a\\_b\\textbar{}c, d & \\textbf{0.1 $\\pm$ 0.02} \\\\\n"
    "50\\% \\& \\textless{}x\\textgreater{} & - \\\\\n"
    "{[}x] & {*} \\\\\n\\bottomrule\n\\end{tabular}\n",
}


@pytest.mark.parametrize("kind", list(COPIES))
def test_odd_labels_do_not_break_a_copy(page, kind):
    text = page.execute_script(
        "const old = document.querySelector('#results'), odd = old.cloneNode(false);"
        "odd.innerHTML = arguments[0]; old.replaceWith(odd);"
        "const text = page.panel('costs').text(arguments[1]); odd.replaceWith(old); return text;",
        ODD,
        kind,
    )
    assert text == COPIES[kind]


def test_another_run_changes_what_the_clients_did(page):
    drawn = "['timeline', 'participation'].map((id) => document.getElementById(id))"
    drawn = f"JSON.stringify({drawn}.map((plot) => plot.data.map((t) => t.marker)))"
    before = page.execute_script(f"return {drawn}")
    press(page, "[data-name='FedExP eps=1e-3']")
    press(page, "[data-seed='1']")
    wait(page, f"{drawn} !== arguments[0]", before)


def test_the_fit_is_that_of_the_chosen_run(page):
    said = page.find_element(By.ID, "fit-note").text
    assert said == "The model is the line y = 1 - x."
    wait(page, "document.querySelectorAll('#fit .scatterlayer .trace').length === 2")
    press(page, "[data-name='FedExP eps=1e-3']")
    wait(page, "document.querySelectorAll('#fit .scatterlayer .trace').length === 0")
    assert title(page, "fit").endswith(", seed 0, has no picture of its model")
    press(page, "[data-name='fedavg']")
    wait(page, "document.querySelectorAll('#fit .scatterlayer .trace').length === 2")


def walk_to(driver, key):
    driver.find_element(By.ID, "walk-step").send_keys(key)
    return driver.execute_script("return document.getElementById('walk-position').textContent")


SHOWN = """return document.getElementById('walk').data.map((t) => [t.meta.part, [...t.x], [...t.y],
    [].concat(t.marker?.size ?? []), [].concat(t.marker?.line?.width ?? []),
    [].concat(t.marker?.color ?? []), t.hovertext]);"""


def test_the_slider_draws_the_walk_as_the_figure_function_does(page, results):
    assert walk_to(page, Keys.HOME).startswith("Round 1 of 40, ")
    said = walk_to(page, Keys.ARROW_RIGHT * 15)
    assert said.startswith("Round 16 of 40, ")
    assert "the server is at client 15 and selects " in said
    assert said.endswith(" Colours are of round 10.")
    figure = walk(results, "fedavg", 0, round=16)
    wait(page, "document.getElementById('walk').data[4].x[0] === arguments[0]", figure.data[4].x[0])
    for drawn, trace in zip(page.execute_script(SHOWN), figure.data, strict=True):
        name, x, y, sizes, widths, colours, texts = drawn
        assert name == trace.meta["part"]
        assert x == list(trace.x)
        assert y == list(trace.y)
        if name == "clients":
            assert (sizes, widths) == (list(trace.marker.size), list(trace.marker.line.width))
            assert (colours, texts) == (list(trace.marker.color), list(trace.hovertext))
            assert len(set(map(str, colours))) > 5


def test_the_walk_plays_and_pauses(page):
    button = page.find_element(By.ID, "walk-play")
    walk_to(page, Keys.HOME)
    button.send_keys(Keys.ENTER)
    wait(page, "document.getElementById('walk-step').value >= 2")
    assert button.text == "Pause"
    button.send_keys(Keys.ENTER)
    assert button.text == "Play"
    time.sleep(0.1)  # a step that was on its way
    at = page.execute_script("return document.getElementById('walk-step').value")
    time.sleep(0.5)
    assert page.execute_script("return document.getElementById('walk-step').value") == at


def test_another_walk_is_chosen(page):
    note = "document.getElementById('eigenvalues-note').textContent"
    assert page.execute_script(f"return {note}").startswith("Second eigenvalue ")
    colour = "document.getElementById('walk-asked').style.borderColor"
    first = page.execute_script(f"return {colour}")
    lines = "document.getElementById('eigenvalues').data?.length"
    assert not page.execute_script(f"return {lines}")
    press(page, "[data-walk='1']")
    wait(page, f"{lines} === 1")
    assert page.execute_script(f"return {colour}") != first


def test_own_models_are_those_of_the_chosen_algorithm(page, results):
    own = "document.getElementById('personal').data.find((t) => t.meta.part === 'own')"
    first = f"{own}.marker.color[0]"
    before = page.execute_script(f"return {first}")
    press(page, "[data-personal-name='FedExP eps=1e-3']")
    wait(page, f"{first} !== arguments[0]", before)
    press(page, "[data-personal-seed='1']")
    press(page, "[data-personal-name=fedavg]")  # which has no such seed
    wait(page, f"{first} === arguments[0]", before)
    pressed = "document.querySelector('[data-personal-seed=\"0\"]').getAttribute('aria-pressed')"
    assert page.execute_script(f"return {pressed}") == "true"


def test_a_client_tells_its_history(page):
    field = page.find_element(By.ID, "client-number")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.NULL, "11", Keys.TAB)
    said = wait(page, "document.querySelector('.history').textContent")
    assert said.startswith("Client 11 with fedavg, seed 0: ")
    assert "round" in said


def test_a_click_on_a_bar_shows_its_client(page):
    page.execute_script("document.getElementById('timeline').scrollIntoView({block: 'center'})")
    bar = page.find_element(By.CSS_SELECTOR, "#timeline .trace.bars:nth-child(2) .point path")
    ActionChains(page).move_to_element(bar).pause(0.2).click().perform()
    assert wait(page, "document.querySelector('.history').textContent").startswith("Client ")


def test_the_keyboard_goes_from_client_to_client(page):
    order = page.execute_script("return page.data.panels.timeline.histories[0].clients.client")
    figure = page.find_element(By.ID, "timeline")
    page.execute_script("document.getElementById('timeline').focus()")
    told = "document.querySelector('.history').textContent.startsWith(arguments[0])"
    for key, place in ((Keys.HOME, 0), (Keys.ARROW_DOWN, 1), (Keys.END, -1), (Keys.ARROW_UP, -2)):
        figure.send_keys(key)
        wait(page, told, f"Client {order[place]} with fedavg, seed 0: ")
    row = len(order) - 2
    wait(page, f"document.getElementById('timeline').layout.shapes.at(-1).y0 === {row} - 0.48")


def test_all_drawn_rounds_can_be_seen(page):
    narrow = layout(page, "timeline")["xaxis"]["range"][1]
    press(page, "[data-span=whole]")
    wait(page, f"document.getElementById('timeline').layout.xaxis.range[1] > {narrow}")


@pytest.fixture
def elsewhere(page):
    """Return a function that opens the page of a result folder in a window of its own."""
    before = page.current_window_handle
    page.switch_to.new_window("tab")
    look(page, 1280, 800)

    def show(folder, *panels):
        report.write(folder, panels=panels)
        open_page(page, Results.read(folder))
        return page

    yield show
    page.close()
    page.switch_to.window(before)


def test_a_table_of_many_columns_with_deviations_fits_the_page(
    elsewhere, tmp_path, run_writer, rows
):
    names = ("accuracy", "test_loss", "loss_gap", "personal_loss", "personal_accuracy")
    for label in ("FedAvg", "a longer name, of two parts"):
        for seed in (0, 1):
            ends = {name: [0.9, 0.0661 + seed * 0.00022] for name in names}
            run_writer(tmp_path, label, seed, rows([1, 0.15 + seed / 100], label, seed, **ends))
    table = elsewhere(tmp_path).find_element(By.CSS_SELECTOR, ".scroll:has(#results)")
    inside, room = (table.get_property(f"{part}Width") for part in ("scroll", "client"))
    assert (inside, room) == (1044, 1044)


def test_what_mixing_costs_is_drawn_as_the_figure_function_does(
    elsewhere, tmp_path, run_writer, walk_writer, rows
):
    for topology, (eigenvalue, taken) in {"a": (0, 2), "b": (0.9, 4), "c": (0.99, 9)}.items():
        folder = run_writer(
            tmp_path, "A", 0, rows([1.0] * taken + [0.5], "A"), folder=topology,
            setting=f"topology={topology}", stopped_by="loss",
            scenario={"stop": {"loss": 0.5}, "topology": {"name": topology}},
        )  # fmt: skip
        walk_writer(folder, [0] * taken, [[(0, 1)]], lambda_2=[eigenvalue])
    drawn = "return document.getElementById('mixing')._fullData.map((t) => [[...t.x], [...t.y]])"
    driven = elsewhere(tmp_path)
    figure = mixing(Results.read(tmp_path))
    for found, trace in zip(driven.execute_script(drawn), figure.data, strict=True):
        assert found == [pytest.approx(list(trace.x)), pytest.approx(list(trace.y))]


@pytest.fixture
def swept(elsewhere, tmp_path, run_writer, rows):
    """The page of a sweep over two numbers, in a window of its own."""
    for lr in (1, 10):
        for tau in (2, 4):
            accuracy = [0.1, 1 / (lr + tau)]
            run_writer(
                tmp_path, "fedavg", 0, rows([1.0, lr / tau], accuracy=accuracy),
                folder=f"{lr}-{tau}", setting=f"lr={lr}, tau={tau}", scenario={},
                settings={"lr": lr, "tau": tau},
            )  # fmt: skip
    return elsewhere(tmp_path)


def test_the_map_of_a_sweep_follows_the_column(swept):
    cells = "document.getElementById('sweep-0').data[0].text.join(' ')"
    assert swept.execute_script(f"return {cells}") == "0.5,5 0.25,2.5"
    press(swept, "[data-y=accuracy]")
    wait(swept, f"{cells} === '0.33,0.083 0.2,0.071'")


@pytest.fixture
def in_cases(elsewhere, tmp_path, case_writer):
    """The page of two algorithms in three cases, in a window of its own."""
    ends = {
        "0.1": {"a": [0.9, 1.1], "b": [2.9, 3.1]},
        "1.0": {"a": [1.9, 2.1], "b": [2.3, 2.1]},
        "10.0": {"a": [3.9, 4.1], "b": [0.9, 1.1]},
    }
    return elsewhere(case_writer(tmp_path, ends))


def test_the_first_screen_answers_where_by_how_much_and_whether_it_is_noise(in_cases):
    bottom = "document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    for part in ("#answer", "#pivot", ".note", "#levels"):
        assert 0 < in_cases.execute_script(f"return {bottom}", part) <= 800


def test_cases_have_the_same_axes_and_targets_of_their_own(in_cases):
    places = ("convergence", "convergence-1", "convergence-2")
    shown = [layout(in_cases, place) for place in places]
    assert len({str(one["yaxis"]["range"]) for one in shown}) == 1
    assert [one["shapes"][0]["y0"] for one in shown] == [3.1, 2.3, 4.1]
    in_cases.execute_script("page.panel('convergence').setTarget(5, 2)")
    wait(in_cases, "document.getElementById('convergence-2').layout.shapes[0].y0 === 5")
    assert layout(in_cases)["shapes"][0]["y0"] == 3.1
    heads = (
        "return [...document.querySelectorAll('#results tr.case')].map((r) => r.textContent.trim())"
    )
    assert in_cases.execute_script(heads) == [
        "alpha = 0.1, target: loss 3.1", "alpha = 1, target: loss 2.3",
        "alpha = 10, target: loss 5",
    ]  # fmt: skip
    assert "target-2=5" in fragment(in_cases)
    # From 8 half of the way to 3.9 or 4.1 is 5.95 or 6.05, and to 0.9 or 1.1 less than 5.
    reading = "document.getElementById('reading-2').textContent.replaceAll('\\u00a0', ' ')"
    assert in_cases.execute_script(f"return {reading}") == (
        "loss 5 reached: b after 1 round, a after 2 rounds"
    )


def test_figures_below_are_of_the_chosen_case(in_cases):
    drawn = "JSON.stringify(document.getElementById('finals').data.map((t) => t.x))"
    first = in_cases.execute_script(f"return {drawn}")
    press(in_cases, "[data-case='alpha = 10']")
    wait(in_cases, f"{drawn} !== arguments[0]", first)
    assert "0.9" in in_cases.execute_script(f"return {drawn}")
    assert "case=alpha+%3D+10" in fragment(in_cases)


def test_the_table_of_cases_follows_the_column_and_is_copied(in_cases):
    markdown = in_cases.execute_script("return tables.text('pivot', 'markdown')")
    assert markdown.splitlines()[2] == "| a | **1.00 ± 0.14** | 2.00 ± 0.14 | 4.00 ± 0.14 |"
    latex = in_cases.execute_script("return tables.text('pivot', 'latex')")
    assert latex == tabular(pivot(Results.read(folder_of(in_cases)), "loss"))
    costs = in_cases.execute_script("return page.panel('costs').text('csv')")
    assert costs.splitlines()[1].startswith("a (alpha=0.1),")
    press(in_cases, "[data-y=accuracy]")
    wait(in_cases, "document.querySelector('#pivot th').textContent === 'final accuracy'")
    said = "document.getElementById('answer').textContent"
    assert in_cases.execute_script(f"return {said}").startswith("Final accuracy: a is best at")


def folder_of(driver):
    return Path(unquote(urlsplit(driver.current_url).path)).parent


def test_an_algorithm_is_hidden_in_every_case(in_cases):
    press(in_cases, "[data-hide=a]")
    mine = "(t) => t.visible !== false && t.meta.name === 'a'"
    for place in ("convergence", "convergence-2", "levels"):
        wait(in_cases, f"!document.getElementById(arguments[0]).data.some({mine})", place)


def test_a_phone_lists_the_first_case_until_all_rows_are_asked_for(in_cases):
    seen = "[...document.querySelectorAll('#results tbody')].filter((r) => r.offsetParent).length"
    fold = in_cases.find_element(By.ID, "rows")
    in_cases.execute_script("arguments[0].open = false", fold)
    assert (in_cases.execute_script(f"return {seen}"), fold.is_displayed()) == (3, False)
    look(in_cases, 390, 844)
    assert (in_cases.execute_script(f"return {seen}"), fold.is_displayed()) == (1, True)
    press(in_cases, "#rows > summary")
    assert in_cases.execute_script(f"return {seen}") == 3
    look(in_cases, 1280, 800)


def test_many_rows_are_folded_and_sorting_shows_the_best_by_the_column(
    elsewhere, tmp_path, run_writer, rows
):
    for k in range(14):
        run_writer(tmp_path, f"m{k:02}", 0, rows([20, 19 - k]))
    driven = elsewhere(tmp_path)
    seen = (
        "[...document.querySelectorAll('#results tbody tr')].filter((r) => r.offsetParent).length"
    )
    driven.execute_script("document.getElementById('rows').open = false")
    assert driven.execute_script(f"return {seen}") == 12
    driven.execute_script("document.querySelector('#results th button').click()")
    assert driven.execute_script(f"return {seen}") == 12
    assert driven.execute_script("return location.hash") == "#sort=algorithm"
    press(driven, "#rows > summary")
    assert driven.execute_script(f"return {seen}") == 14


COLOURS = """return Object.fromEntries(document.getElementById('convergence').data
    .filter((t) => t.meta.part === 'mean').map((t) => [t.meta.name, t.line.color]))"""


def test_of_many_settings_the_best_are_coloured_and_one_is_singled_out(
    elsewhere, tmp_path, run_writer, rows
):
    for lr in range(1, 18):
        accuracy = [0.1, 0.9 - lr / 50]
        run_writer(
            tmp_path, "a", 0, rows([8, 8 - lr / 3], accuracy=accuracy), folder=f"a{lr}",
            setting=f"lr={lr}", settings={"lr": lr}, scenario={}, algorithm="a",
        )  # fmt: skip
    driven = elsewhere(tmp_path)
    results = Results.read(tmp_path)

    def drawn_as(y):
        figure = convergence(results, y=y)
        means = {t.meta["name"]: t.line.color for t in figure.data if t.meta["part"] == "mean"}
        assert driven.execute_script(COLOURS) == means
        return next(name for name, colour in means.items() if colour != LIGHT["strip"])

    assert drawn_as("loss") == "lr=17"
    press(driven, "[data-y=accuracy]")
    wait(driven, "document.getElementById('convergence').layout.yaxis.title.text === 'accuracy'")
    assert drawn_as("accuracy") == "lr=1"
    driven.execute_script(
        "const place = document.getElementById('convergence');"
        "place.emit('plotly_click', {points: [{data: place.data.find((t) => t.meta.part === 'mean'"
        " && t.meta.name === 'lr=5')}]});"
    )
    wait(driven, "page.view.only === 'lr=5'")
    coloured = [n for n, c in driven.execute_script(COLOURS).items() if c != LIGHT["strip"]]
    assert coloured == ["lr=5"]
    assert "only=lr%3D5" in fragment(driven)
    press(driven, "[data-hide=a]")
    wait(driven, "page.view.hidden.size === 17")
    assert "hide=a" in fragment(driven)


class Rounds(RunPanel):
    """A panel that somebody adds, with neither template nor script: the rounds of a run."""

    name = "added"
    section = Section.CLIENTS
    rank = 15

    def title(self, run):
        return f"{run.name} ran {len(run.rounds) - 1} rounds"

    def figure(self, run):
        return canvas(200, meta={"note": f"seed {run.seed}"}).add_bar(y=[len(run.rounds) - 1])


DRAWN = "return document.getElementById(arguments[0]).data.map((t) => [t.meta, [...t.x], [...t.y]])"


def same_traces(driver, name, figure):
    traces = {tuple(t.meta.values()): t for t in figure.data}
    drawn = driver.execute_script(DRAWN, name)
    assert len(drawn) == len(traces)
    for meta, xs, ys in drawn:
        trace = traces[tuple(meta.values())]
        assert xs == pytest.approx(list(trace.x), rel=1e-5, abs=1e-9)
        assert ys == (
            list(trace.y) if isinstance(ys[0], str) else pytest.approx(list(trace.y), rel=1e-5)
        )


@pytest.mark.parametrize(("x", "y"), [("bytes_up", "accuracy"), ("accuracy", "loss")])
def test_any_two_columns_are_drawn_as_the_figure_function_does(page, results, x, y):
    select(page, "against-x", x)
    select(page, "against-y", y)
    expected = against(results, x, y)
    wait(page, "document.getElementById('against').layout.yaxis.title.text === arguments[0]", y)
    same_traces(page, "against", expected)
    axes = layout(page, "against")
    for axis in ("xaxis", "yaxis"):
        assert axes[axis]["type"] == expected.layout[axis].type
        assert axes[axis]["range"] == pytest.approx(list(expected.layout[axis].range), rel=1e-4)
    assert f"against-x={x}" in fragment(page)
    select(page, "against-x", "loss")
    select(page, "against-y", "accuracy")


def test_final_values_follow_the_column(page, results):
    press(page, "[data-y=accuracy]")
    expected = finals(results, "accuracy")
    wait(page, "document.getElementById('finals').layout.xaxis.title.text === 'final accuracy'")
    same_traces(page, "finals", expected)
    assert layout(page, "finals")["xaxis"]["range"] == pytest.approx(expected.layout.xaxis.range)


def test_what_ends_cost_follows_the_column(elsewhere, tmp_path, run_writer, rows):
    for label, size, ends in (("a", 100, (1, 0.6)), ("b", 10, (5, 0.9))):
        frame = rows([8, ends[0]], label=label, accuracy=[0.1, ends[1]]).assign(bytes_up=size)
        run_writer(tmp_path, label, 0, frame)
    page = elsewhere(tmp_path)
    press(page, "[data-y=accuracy]")
    wait(page, "document.getElementById('tradeoff').layout.yaxis.title.text === 'final accuracy'")
    same_parts = DRAWN.replace(".map(", ".filter((t) => t.meta.part === 'mean').map(")
    drawn = page.execute_script(same_parts, "tradeoff")
    assert {meta["name"]: ys for meta, _, ys in drawn} == {"a": [0.6], "b": [0.9]}
    press(page, "[data-y=bytes_up]")  # which nobody wins
    wait(page, "document.getElementById('tradeoff').layout.yaxis.title.text === 'final loss'")


SHOWN_VIEW = """return [page.view.x, page.view.y, page.view.log, page.view.target,
    page.view.smooth, page.view.seeds, [...page.view.hidden],
    page.data.runs[page.view.run].name, page.data.runs[page.view.run].seed]
"""


def fragment(driver):
    return driver.execute_script("return location.hash")


def test_the_view_is_in_the_address_and_comes_back(elsewhere, results):
    driven = elsewhere(results.folder)
    assert fragment(driven) == ""
    press(driven, "[data-x=time_s]")
    press(driven, "[data-y=accuracy]")
    press(driven, "[data-scale=log]")
    press(driven, "[data-smooth='0.9']")
    press(driven, "[data-lines=seeds]")
    driven.execute_script("page.panel('convergence').setTarget(0.9)")
    press(driven, "[data-hide='local-only']")
    press(driven, "[data-name='FedExP eps=1e-3']")
    press(driven, "[data-seed='1']")
    chosen = ["time_s", "accuracy", True, 0.9, 0.9, True, ["local-only"], "FedExP eps=1e-3", 1]
    assert driven.execute_script(SHOWN_VIEW) == chosen
    table, address = shown_table(driven), driven.current_url
    driven.get("about:blank")
    driven.get(address)
    wait(driven, "document.body.dataset.ready === 'true'")
    assert driven.execute_script(SHOWN_VIEW) == chosen
    assert layout(driven)["yaxis"]["type"] == "log"
    assert shown_table(driven) == table
    pressed = (
        "[data-x=time_s]",
        "[data-smooth='0.9']",
        "[data-lines=seeds]",
        "[data-y=accuracy]",
        "[data-name='FedExP eps=1e-3']",
    )
    for button in pressed:
        found = driven.find_element(By.CSS_SELECTOR, button)
        assert found.get_attribute("aria-pressed") == "true"
    hidden = driven.find_element(By.CSS_SELECTOR, "[data-hide='local-only']")
    assert hidden.get_attribute("aria-pressed") == "false"
    driven.execute_script("location.hash = 'x=round&y=accuracy'")
    wait(driven, "page.view.x === 'round' && !page.view.hidden.size")


def test_an_address_that_means_nothing_opens_the_first_view(elsewhere, results):
    driven = elsewhere(results.folder)
    first = driven.execute_script(SHOWN_VIEW)
    address = "#x=constructor&y=none&scale=odd&smooth=1&lines=odd&target=much"
    address += "&hide=nobody&run=fedavg&seed=99&q=%"
    driven.execute_script("location.hash = arguments[0]", address)
    wait(driven, "page.view.log !== undefined")
    assert driven.execute_script(SHOWN_VIEW) == first


def test_an_added_panel_follows_the_chosen_run(elsewhere, tmp_path, study_writer):
    driven = elsewhere(study_writer(tmp_path, ["a", "b"], seeds=2, rounds=5), Rounds)
    assert title(driven, "added") == "a ran 5 rounds"
    press(driven, "[data-name=b]")
    wait(driven, "document.getElementById('added-title').textContent.startsWith('b ran 5')")
    press(driven, "[data-seed='1']")
    wait(driven, "document.getElementById('added-note').textContent === 'seed 1'")
    wait(driven, "document.querySelectorAll('#added .trace.bars').length === 1")


def test_every_control_is_reached_by_the_keyboard(page):
    reached = set()
    focusable = "a[href], button, input, select, summary, [tabindex]"
    count = page.execute_script(f"return document.querySelectorAll({focusable!r}).length")
    page.execute_script("document.body.tabIndex = -1; document.body.focus()")
    for _ in range(count + 30):  # areas that scroll are stops of the browser
        ActionChains(page).send_keys(Keys.TAB).perform()
        reached.add(
            page.execute_script(
                "const e = document.activeElement; return e.outerHTML.slice(0, 120)"
            )
        )
    shown = page.execute_script(
        "return [...document.querySelectorAll('button, input, select, summary, .plot[tabindex]')]"
        ".filter((e) => e.offsetParent && !e.disabled).map((e) => e.outerHTML.slice(0, 120))"
    )
    assert set(shown) <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(phone, scheme):
    look(phone, 390, 844, scheme)
    colour = {"light": LIGHT, "dark": DARK}[scheme]["background"]
    wait(phone, "document.getElementById('fairness').layout.paper_bgcolor === arguments[0]", colour)
    assert phone.execute_script("return document.documentElement.scrollWidth") == 390
    wide = phone.execute_script(
        "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll') "
        "&& !e.closest('svg') && !e.closest('pre') && e.getBoundingClientRect().right > 390.5)"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert wide == []


def test_a_tooltip_on_a_phone_stays_on_the_screen(phone):
    phone.execute_script("document.querySelectorAll('.term')[1].focus()")
    left, right = phone.execute_script(
        "const r = document.querySelectorAll('.term > span')[1].getBoundingClientRect();"
        "return [r.left, r.right]"
    )
    assert left >= 0
    assert left < right <= 390


def test_lines_are_hidden_by_the_key(phone):
    hide = "[data-hide='local-only']"
    press(phone, f".key {hide}")
    hidden = "document.getElementById('convergence').data.filter((t) => t.visible === false)"
    wait(phone, f"{hidden}.length === 6")  # band, mean, crossings and three seeds
    assert phone.find_element(By.CSS_SELECTOR, hide).get_attribute("aria-pressed") == "false"


FIGURES = (
    "convergence", "timeline", "participation", "rounds", "fairness", "walk", "visits", "personal",
    "personal-rounds",
)  # fmt: skip


def test_figures_follow_the_readers_colours(page):
    assert {layout(page, name)["paper_bgcolor"] for name in FIGURES} == {LIGHT["background"]}
    look(page, 1280, 800, "dark")
    for name in FIGURES:
        wait(page, f"document.getElementById('{name}').layout.paper_bgcolor === arguments[0]",
             DARK["background"])  # fmt: skip
    text = page.execute_script(
        "return JSON.stringify(arguments[0].map((n) => document.getElementById(n).data))", FIGURES
    )
    assert not any(colour in text for colour in LIGHT.values() if colour not in DARK.values())


def test_a_figure_is_printed_as_a_pdf_of_its_size(elsewhere, results):
    driven = elsewhere(results.folder)
    press(driven, "[data-save=finals][data-format=pdf]")
    sheet = wait(driven, "document.getElementById('sheet')?.srcdoc")
    size = driven.execute_script(
        "const { clientWidth, clientHeight } = document.getElementById('finals');"
        "return [clientWidth, clientHeight]"
    )
    driven.get("about:blank")
    driven.execute_script("document.write(arguments[0])", sheet)
    made = driven.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    content = b64decode(made)
    boxes = re.findall(rb"/MediaBox \[([^\]]*)\]", content)
    assert len(boxes) == 1
    assert [float(n) for n in boxes[0].split()[2:]] == pytest.approx(
        [0.75 * n for n in size], abs=1
    )
    assert b"/Subtype /Image" not in content  # lines and letters
    assert b"/Font" in content


def test_print_is_light_whatever_the_screen_is(page):
    browser = page
    look(browser, 1280, 800, "dark")
    browser.execute_script("window.printed = true; window.dispatchEvent(new Event('beforeprint'))")
    wait(browser, "document.getElementById('fairness').layout.paper_bgcolor === arguments[0]",
         LIGHT["background"])  # fmt: skip
    look(browser, 1280, 800, "dark", media="print")
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert browser.execute_script(style, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script(style, ".controls", "display") == "none"


def test_the_script_says_numbers_as_python_does(page):
    values = [0, 1, 0.041234, 0.00099, 9.999, 59.4, 59.9, 192, 999, 3599.9, 11520, 999950, 4.1e9]
    said = page.execute_script(
        "return arguments[0].map((v) => [units.number(v), units.count(v), units.duration(v), "
        "units.size(v)])",
        values,
    )
    for value, texts in zip(values, said, strict=True):
        own = (units.number, units.count, units.duration, units.size)
        assert texts == [function(value) for function in own]


LABELS = """
return arguments[0].map(({ better, range, log, end, target, lines }) => {
  const data = { columns: { y: { better } } };
  const figure = { layout: { meta: { target: { label: {} } } } };
  const shape = curves.targetLine(figure, data, { y: "y", target }, lines, { range, log, end });
  return [shape.label.textposition, shape.label.yanchor];
});
"""


def test_the_script_names_the_target_where_the_figure_function_does(page):
    """On random bands, some of them below zero, where a log axis has no place for them."""
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for _ in range(400):
        log, higher = rng.random(2) < 0.5
        lines, end, bottom, size = [], *rng.uniform((1, -2, 0.5), (50, 2, 3)).tolist()
        for _ in range(rng.integers(0, 4)):
            x = np.sort(rng.uniform(0, end, rng.integers(1, 12)))
            ends = bottom + size * np.sort(rng.uniform(-0.1, 1.1, (2, len(x))), axis=0)
            low, high = np.where(rng.random(ends.shape) < 0.03, -1, 10**ends) if log else ends
            lines.append(Curve(x, (low + high) / 2, low, high))
        at = bottom + size * float(rng.uniform(-0.1, 1.1))
        target, axis = 10**at if log else at, [bottom, bottom + size]
        better, figure = "higher" if higher else "lower", canvas(300)
        figure.update_xaxes(range=[0, end])
        figure.update_yaxes(range=axis, type="log" if log else "linear")
        place = _label_place(figure, target, Column("y", better=better), lines)
        expected.append([*place.values()])
        drawn = [{k: getattr(c, k).tolist() for k in ("x", "low", "high")} for c in lines]
        view = {"range": axis, "log": bool(log), "end": end, "target": target}
        cases.append(view | {"better": better, "lines": drawn})
    assert len({tuple(place) for place in expected}) == 4
    assert page.execute_script(LABELS, cases) == expected


def test_on_a_phone_axes_of_one_scale_are_as_high_as_wide(phone):
    """But for some pixels of a scroll bar, which changes while the window narrows."""
    wait(phone, "document.getElementById('walk')._fullLayout.height < 600")
    wide, high = phone.execute_script(
        "const { w, h } = document.getElementById('walk')._fullLayout._size; return [w, h];"
    )
    assert wide == pytest.approx(high, abs=10)
