"""The dashboard in a real browser: what one sees, presses and waits for."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil
import pytest
import yaml

pytest.importorskip("starlette", reason="starlette is not installed")

import rayfed
from rayfed.core.entries import sealed
from rayfed.core.leases import is_stop_requested
from rayfed.core.notes import FILE, Notes
from rayfed.dashboard import start
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.control import LOG
from rayfed.dashboard.server import LOOK_S
from rayfed.dashboard.views import VIEWS
from rayfed.runs.files.outcome import outcomes
from rayfed.testing.studies import mixed
from tests.fakes.chromium import CHROMIUM, DRIVER, look, opened, wait

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
axe = pytest.importorskip("selenium_axe_python", reason="selenium-axe-python is not installed")

from selenium.webdriver import ActionChains  # noqa: E402 - needs the check above
from selenium.webdriver.common.by import By  # noqa: E402

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("dashboard") / "results"
    local = {"steps": 5, "batch": 4, "lr": 0.1}
    both = [{"name": "fedavg", "local": local}, {"name": "fedexp", "local": local}]
    rayfed.run(mixed(seeds=[3, 4], algorithms=both), out=root / "first", page=False)
    rayfed.run(mixed(rounds=4), out=root / "second", page=False)
    return root


@pytest.fixture(scope="module")
def served(folder):
    made = start([folder], control=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = opened(tmp_path_factory.mktemp("profile"))
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, served):
    """The overview; what the browser's console says fails the test."""
    browser.get(served.address)
    yield browser
    said = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not said, said


def at(served, path):
    return served.address.partition("/?")[0] + path


def ready(driver):
    wait(driver, "document.body.dataset.ready === 'true'")


def unfold(driver):
    """Open all folds, those too that come with the answer to an opened one."""
    opened = "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
    drawn = "[...document.querySelectorAll('.more .plot')].every((one) => one.on)"
    wait(driver, f"({opened}, !document.querySelector('[data-waiting]') && {drawn})", seconds=30)


EMPTY = "[...document.querySelectorAll('.plot')].filter((p) => !p.data?.length).map((p) => p.id)"
SHOWN = "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden)"


def test_runs_are_filtered_sorted_ticked_and_compared(page):
    assert len(page.execute_script(f"return {SHOWN}")) == 5
    page.find_element(By.ID, "filter").send_keys("fedexp first")
    assert len(page.execute_script(f"return {SHOWN}")) == 2
    assert page.find_element(By.ID, "shown").text == "2 of 5 runs"
    page.find_element(By.ID, "filter").clear()
    page.find_element(By.ID, "filter").send_keys("first")
    heads = page.find_elements(By.CSS_SELECTOR, "#runs thead button")
    loss = next(head for head in heads if head.text == "best loss")
    losses = f"{SHOWN}.map((row) => Number(row.cells[6].dataset.key))"
    loss.click()
    up = page.execute_script(f"return {losses}")
    loss.click()
    down = page.execute_script(f"return {losses}")
    assert up == sorted(up) == down[::-1]
    for row in page.execute_script(f"return {SHOWN}")[:3]:
        row.find_element(By.CSS_SELECTOR, "input").click()
    link = page.find_element(By.ID, "open")
    assert link.text == "Compare 3 runs"
    assert page.current_url.count("run=") == 3  # the address opens it again
    page.refresh()
    assert wait(page, "document.getElementById('open').textContent") == "Compare 3 runs"
    page.find_element(By.ID, "open").click()
    ready(page)
    assert (
        page.execute_script("return page.data.panels.convergence.parts[0].curves.runs.length") == 3
    )


def test_of_many_runs_the_first_fifty_are_listed_until_all_are_asked_for(page):
    page.execute_script(
        "const body = document.querySelector('#runs tbody');"
        "for (let k = 0; k < 55; k++) body.append(body.lastElementChild.cloneNode(true));"
    )
    heads = page.find_elements(By.CSS_SELECTOR, "#runs thead button")
    next(head for head in heads if head.text == "seed").click()
    assert page.execute_script(f"return {SHOWN}.length") == 50
    every = page.find_element(By.ID, "all")
    assert every.text == "List all 60 runs"
    every.click()
    assert page.execute_script(f"return {SHOWN}.length") == 60
    assert not every.is_displayed()


def test_a_target_is_moved_and_its_column_sorts_by_it(page, served):
    heads = page.find_elements(By.CSS_SELECTOR, "#runs thead button")
    place = [head.text for head in heads].index("time to target") + 1
    keys = f"{SHOWN}.map((row) => row.cells[{place}].dataset.key)"
    assert "" not in page.execute_script(f"return {keys}")  # all reach what all have come to
    bests = page.execute_script(f"return {SHOWN}.map((row) => Number(row.cells[6].dataset.key))")
    middle = sorted(bests)[2]
    page.find_element(By.ID, "goal").send_keys(f"{middle}\n")
    wait(page, f"{keys}.includes('')")
    reached = page.execute_script(f"return {keys}.map((key) => key !== '')")
    bests = page.execute_script(f"return {SHOWN}.map((row) => Number(row.cells[6].dataset.key))")
    assert reached == [best <= middle for best in bests]
    page.find_elements(By.CSS_SELECTOR, "#runs thead button")[place - 1].click()
    page.find_element(By.ID, "filter").send_keys("fed")
    page.get(page.current_url)
    page.refresh()  # the address opens it as it stands
    assert page.find_element(By.ID, "goal").get_property("value") == str(middle)
    assert page.find_element(By.ID, "filter").get_property("value") == "fed"
    sorted_keys = page.execute_script(f"return {keys}")
    assert sorted_keys == sorted(sorted_keys, key=lambda key: float(key or "inf"))


DOTS = "document.getElementById('dots').data?.flatMap((trace) => trace.customdata)"


def press(page, place):
    """Press what a script finds, in one step: the table may be replaced at any time."""
    wait(page, f"((found) => found && (found.click(), true))({place})")


def pick(page, key, text):
    """Choose an option of a column of the overview."""
    place = f"[data-query={key}]" if key != "add" else "#add"
    page.execute_script(
        "const list = document.querySelector(arguments[0]);"
        "list.value = arguments[1]; list.dispatchEvent(new Event('change'));",
        place, text,
    )  # fmt: skip


def test_runs_are_dots_over_any_columns_and_in_groups(page):
    assert len(wait(page, DOTS)) == 5
    page.find_element(By.ID, "filter").send_keys("fedexp")
    wait(page, f"{DOTS}.length === 2")
    page.find_element(By.ID, "filter").clear()
    page.find_element(By.ID, "filter").send_keys(" ")
    pick(page, "x", "rounds")
    wait(page, "document.getElementById('dots').layout.xaxis.title.text === 'rounds'")
    pick(page, "add", "rounds")
    wait(page, "document.querySelector('[data-remove=rounds]')")
    pick(page, "group", "rounds")
    wait(page, "document.querySelectorAll('tbody[data-group]').length === 2")
    cells = "[...document.querySelectorAll('#runs tr[data-run] td:last-child')]"
    values = page.execute_script(f"return {cells}.map((cell) => cell.textContent)")
    assert values == ["4", "12", "12", "12", "12"]
    press(page, "document.querySelector('[data-group=\"12\"] button')")
    assert len(page.execute_script(f"return {SHOWN.replace(' tr', ' tr[data-run]')}")) == 1
    page.refresh()  # the address has columns, groups and axes
    press(page, "document.querySelector('[data-remove=rounds]')")
    wait(page, "!document.querySelector('[data-remove=rounds]')")
    assert "group=rounds" in page.current_url
    clicked = {"points": [{"customdata": "results/second/fedavg-seed3"}]}
    place = page.find_element(By.ID, "dots")
    page.execute_script("arguments[0].emit('plotly_click', arguments[1])", place, clicked)
    assert page.find_element(By.ID, "open").text == "Open 1 run"


def test_views_are_saved_by_name_and_opened_again(page, served):
    page.get(at(served, "/?group=seed"))
    page.find_element(By.ID, "filter").send_keys("fedexp")
    page.find_element(By.CSS_SELECTOR, "#views summary").click()
    for name in ("Seeds of <b>", "other"):
        page.find_element(By.CSS_SELECTOR, "#views input").send_keys(f"{name}\n")
    page.get(at(served, "/compare?study=results/first"))
    ready(page)
    page.find_element(By.CSS_SELECTOR, "#views summary").click()
    names = [link.text for link in page.find_elements(By.CSS_SELECTOR, "#views li a")]
    assert names == ["Seeds of <b>", "other"]
    page.find_elements(By.CSS_SELECTOR, "#views li a")[0].click()
    wait(page, "document.getElementById('filter')?.value === 'fedexp'")
    assert "group=seed" in page.current_url
    page.execute_script("document.querySelectorAll('#views li button').forEach((b) => b.click())")
    page.execute_script("document.querySelectorAll('#views li button').forEach((b) => b.click())")
    page.refresh()
    assert page.find_elements(By.CSS_SELECTOR, "#views li") == []


def test_a_refusal_to_show_anything_reads_well_with_axe(page, served):
    page.get(at(served, "/compare?study=results/other"))
    assert page.find_element(By.TAG_NAME, "h1").text == "This cannot be shown"
    read_well(page, "trouble")
    page.get_log("browser")  # with the line about the answer 404


def test_a_study_is_noted_found_by_its_tag_archived_and_deleted(page, served, folder):
    out = shutil.copytree(folder / "second", folder / "third")
    row = "document.querySelector('[data-study=\"results/third\"]')"
    press(page, f"{row}?.querySelector('summary')")
    page.execute_script(f"{row}.querySelector('[name=text]').value = 'Too <b>steep</b>.'")
    Notes(tags=("other",)).write(folder / "second")  # the table is replaced, the text stays
    wait(page, "document.querySelector('[data-tag=other]')")
    page.execute_script(f"{row}.querySelector('[name=tags]').value = 'steep paper'")
    page.execute_script(f"{row}.querySelector('[data-do=note]').click()")
    press(page, "document.querySelector('[data-tag=steep]')")
    assert Notes.read(out) == Notes("Too <b>steep</b>.", ("paper", "steep"))
    assert page.find_element(By.ID, "shown").text == "1 of 6 runs"
    told = f"{row}.querySelector('output').textContent"
    assert page.execute_script(f"return {told}") == "notes of results/third are saved"
    look(page, 390, 800)
    wait(page, "document.documentElement.scrollWidth <= 390")
    look(page, 1280, 800)
    page.execute_script(f"{row}.querySelector('[data-do=archive]').click()")
    wait(page, f"!{row}")
    press(page, "document.querySelector('[data-query=archived]')")
    wait(page, f"{row}?.querySelector('[data-do=restore]')")
    page.execute_script(f"{row}.querySelector('[data-do=delete]').click()")
    wait(page, f"{told}.includes(\"type 'third' to delete it\")")
    below = f"{row}.querySelector('output').previousElementSibling.dataset.do"
    assert page.execute_script(f"return {below}") == "delete"
    for kind in ("second", "third"):
        page.execute_script(
            f"document.querySelector('[data-run^=\"results/{kind}/\"] input').click()"
        )
    assert page.find_element(By.ID, "open").text == "Compare 2 runs"
    page.execute_script(f"{row}.querySelector('[name=name]').value = 'third'")
    page.execute_script(f"{row}.querySelector('[data-do=delete]').click()")
    wait(page, f"!{row}")
    assert not out.exists()
    assert page.find_element(By.ID, "open").text == "Open 1 run"
    assert "third" not in page.current_url
    (folder / "second" / FILE).unlink()


def test_a_study_without_its_data_says_so_below_the_button(page, folder):
    out, rows = folder / "without", folder.parent / "rows.csv"
    rows.write_text("a,y\n" + "0.5,1\n-0.5,0\n" * 8)
    problem = {"name": "logistic-regression", "dataset": str(rows), "target": "y"}
    local = {"steps": 1, "batch": 2, "lr": 0.1}
    rayfed.run(
        name="without", rounds=2, seeds=[3], problem=problem, clients={"count": 2},
        partition={"name": "iid"}, algorithms=[{"name": "fedavg", "local": local}], out=out,
        page=False, executor="serial",
    )  # fmt: skip
    rows.rename(rows.with_suffix(".away"))
    row = "document.querySelector('[data-study=\"results/without\"]')"
    for what, fill in (("extend", "rounds"), ("resume", None)):
        if what == "resume":  # a run of which it has all rounds needs no data
            path = next(out.glob("*-seed3")) / "run.json"
            record = json.loads(path.read_text())
            stopped = {**record, "status": "interrupted", "rounds": 1, "ended": None}
            path.write_text(json.dumps(sealed(stopped)))
        page.refresh()
        wait(page, row)
        if fill:
            page.execute_script(f"{row}.querySelector('[name={fill}]').value = '5'")
        button = f"{row}.querySelector('[data-do={what}]')"
        page.execute_script(f"{button}.click()")
        assert page.execute_script(f"return {button}.disabled")
        told = f"{row}?.querySelector('output')"
        wait(page, f"{told}?.textContent.includes('rows.csv: cannot be read')", seconds=60)
        assert page.execute_script(f"return {told}.previousElementSibling.dataset.do") == what
        assert not page.execute_script(f"return {button}.disabled")
        assert "rows.csv: cannot be read" in (out / LOG).read_text().splitlines()[-1]
        (out / LOG).unlink()
    shutil.rmtree(out)


def test_long_names_leave_the_table_of_runs_in_its_place(page, served, folder):
    """At 1280 pixels all of it is seen; at 390 it scrolls and says which run it is of."""
    out = shutil.copytree(folder / "second", folder / "a_study_of_many_words_that_goes_on")
    (run,) = out.glob("*-seed3")
    said = {
        "label": "FedAvg with momentum at the server",
        "setting": "algorithms.*.local.lr=0.01, algorithms.*.server_lr=0.3, partition.alpha=0.1",
        "status": "failed", "reason": "the loss is not finite after round 1,234",
    }  # fmt: skip
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(sealed({**record, **said})))
    box = "document.getElementById('runs').parentElement"
    ends = "[...document.querySelectorAll('#runs thead th')].map((h) => h.getBoundingClientRect())"
    for width in (1280, 390):
        look(page, width, 800)
        page.get(served.address)
        inside = page.execute_script(f"return {box}.clientWidth")
        whole = page.execute_script(f"return {box}.scrollWidth")
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert whole <= inside or width == 390
    page.execute_script(f"{box}.scrollTo(1000, 0)")
    _, name, *_, last = page.execute_script(f"return {ends}")
    assert 0 <= name["left"] < name["right"] < last["left"] < last["right"] <= 390
    look(page, 1280, 800)
    shutil.rmtree(out)


def test_a_client_tells_all_that_it_did_wherever_it_is_in_the_file(page, served, folder):
    page.get(at(served, "/clients?study=results/first"))
    ready(page)
    assert page.execute_script("return page.data.panels.timeline.histories[0].events") is None
    run = page.execute_script("return page.data.runs[page.view.run]")
    events = rayfed.load(folder / "first").events
    mine = events[(events["label"] == run["name"]) & (events["seed"] == run["seed"])]
    client = int(mine["client"].iloc[-1])
    used = mine[(mine["client"] == client) & (mine["status"] == "used")]["round"].unique()
    page.find_element(By.ID, "client-number").send_keys(f"{client}\n")
    listed = ", ".join(str(number) for number in used)
    lines = "[...document.querySelectorAll('.history p')].map((p) => p.textContent)"
    told = f"Used in {len(used)} round{'s' if len(used) > 1 else ''}: {listed}."
    wait(page, f"{lines}.includes(arguments[0])", told)
    # A run that is begun anew has no events yet; what comes later is drawn all the same.
    renewed = "page.renew({panels: {}}).then(() => 'drawn', String).then(arguments[0])"
    assert page.execute_async_script(renewed) == "drawn"


def test_twenty_tabs_are_open_at_once_and_hear_of_changes(page, served, folder):
    first = page.current_window_handle
    for _ in range(19):
        page.switch_to.new_window("tab")
        page.get(served.address)
    out = folder / "fourth"
    rayfed.run(mixed(rounds=2), out=out, page=False)
    for tab in page.window_handles[::-1]:
        page.switch_to.window(tab)
        wait(page, "document.querySelector('[data-run^=\"results/fourth/\"]')")
        if tab != first:
            page.close()
    page.switch_to.window(first)
    shutil.rmtree(out)


def test_what_came_about_meanwhile_is_said(page, served, folder):
    hide = """Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});
              document.dispatchEvent(new Event('visibilitychange'));"""
    page.execute_script(hide, True)
    out = folder / "third"
    rayfed.run(mixed(rounds=2), out=out, page=False)
    wait(page, "document.querySelector('[data-run^=\"results/third/\"][data-status=finished]')")
    page.execute_script(hide, False)
    said = page.find_element(By.ID, "news").text
    shutil.rmtree(out)
    assert said == "Since you looked away: fedavg seed 3 finished just now"


def test_every_view_draws_its_figures_and_reads_well_with_axe(page, served, folder):
    """A figure that is empty fails, and so does a violation in either colour scheme or width."""
    (folder / "first/fedavg-seed3/log.txt").write_text(f"failed: {'long ' * 100}\n")
    for view in ("", *VIEWS, "log"):
        page.get(at(served, f"/{view}?study=results/first" if view else "/"))
        wait(page, "document.querySelector('main')")
        if view != "log":
            ready(page) if view else wait(page, DOTS)
        unfold(page)
        assert page.execute_script(f"return {EMPTY}") == [], view
        read_well(page, view)
        assert [entry["message"] for entry in page.get_log("browser")] == [], view


def test_the_server_makes_what_the_reader_opens(page, served, folder):
    local = {"steps": 5, "batch": 4, "lr": 0.1}
    both = [{"name": "fedavg", "local": local}, {"name": "fedexp", "local": local}]
    changes = {"grid": {"problem.l2": [0.01, 0.1]}, "rounds": 3, "algorithms": both}
    rayfed.run(mixed(**changes), out=folder / "cases", page=False)
    page.get(at(served, "/compare?study=results/cases"))
    ready(page)
    made = "Object.keys(page.data.panels).sort().join(' ')"
    first = page.execute_script(f"return {made}")
    assert "against" not in first
    page.execute_script("document.querySelector('[data-more]').open = true")
    wait(page, "document.getElementById('against')?.data?.length === 4")
    assert page.execute_script("return document.querySelector('[data-more]').open")
    line = "JSON.stringify(document.getElementById('against').data.map(({x, y}) => [x, y]))"
    page.execute_script(f"window.before = {line}")
    page.execute_script("document.querySelector('[data-case=\"l2 = 0.1\"]').click()")
    wait(page, f"{line} !== window.before")
    accuracy = "document.querySelector('[data-y=accuracy]').click()"
    page.execute_script(accuracy)
    axis = "document.getElementById('convergence').layout.yaxis.title.text"
    wait(page, f"{axis} == 'accuracy'")
    shown = page.execute_script(f"return {line}")
    assert page.current_url.endswith("#y=accuracy&case=l2+%3D+0.1")
    page.refresh()  # the address opens the same
    ready(page)
    wait(page, f"{axis} == 'accuracy'")
    page.execute_script("document.querySelector('[data-more]').open = true")
    wait(page, "document.getElementById('against')?.data?.length === 4")
    assert page.execute_script(f"return {line}") == shown
    page.execute_script("document.querySelector('[data-more]').open = false; live.refresh(true)")
    wait(page, f"{made} == {first!r} && {axis} == 'accuracy'")  # and closed ones are not made
    shutil.rmtree(folder / "cases")


FIT = "JSON.stringify(document.getElementById('fit').data.map(({x, y, z}) => [x, y, z]))"


def test_a_sorted_table_stays_sorted_as_rows_arrive(page, served):
    page.get(at(served, "/compare?study=results/first"))
    ready(page)
    press = "[...document.querySelectorAll('#results thead button')].at(-1).click()"
    page.execute_script(f"{press}; {press}")
    order = (
        "[...document.querySelectorAll('#results tbody tr')].map((row) => row.dataset.row).join()"
    )
    before = page.execute_script(f"return {order}")
    page.execute_script("document.getElementById('results').id = 'earlier'; live.refresh(true)")
    wait(page, "document.querySelector('#results th[aria-sort=descending]')")
    assert page.execute_script(f"return {order}") == before


def test_a_view_of_single_runs_lets_one_be_chosen(page, served):
    page.get(at(served, "/heterogeneity?study=results/first"))
    ready(page)
    page.execute_script(f"window.before = {FIT}")
    page.find_element(By.CSS_SELECTOR, "[data-name=fedexp]").click()
    page.find_element(By.CSS_SELECTOR, "[data-seed='4']").click()
    wait(page, f"{FIT} !== window.before")
    assert page.current_url.endswith("#run=fedexp&seed=4")


def read_well(page, view):
    """A violation in either colour scheme or width fails, and so does a page that is too wide."""
    checker = axe.Axe(page)
    for width, scheme in ((1280, "light"), (390, "dark")):
        look(page, width, 800, scheme)
        wait(page, f"document.documentElement.scrollWidth <= {width}")  # once figures have followed
        checker.inject()
        found = checker.run()["violations"]
        assert not found, (view, width, [(v["id"], v["nodes"][0]["html"]) for v in found])
    look(page, 1280, 800)


CLASSES = {"name": "synthetic", "features": 5, "classes": 3, "samples": 4}


@pytest.mark.slow
def test_views_of_a_thousand_clients_read_well_with_axe(page, served, folder):
    delay = {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}
    crowd = {"count": 1000, "delay": delay}
    problem = {"name": "softmax-regression", "dataset": CLASSES, "test": 0.25}
    scenario = mixed(name="crowd", rounds=4, clients=crowd, problem=problem)
    scenario |= {"participation": {"cohort": 1000}}
    result = rayfed.run(scenario, out=folder / "crowd", page=True)
    assert result.events["client"].nunique() == 1000
    for view in VIEWS:
        page.get(at(served, f"/{view}?study=results/crowd"))
        ready(page)
        unfold(page)
        assert page.execute_script(f"return {EMPTY}") == [], view
        read_well(page, view)
    page.get((folder / "crowd" / "report.html").as_uri())
    ready(page)
    unfold(page)
    read_well(page, "the page")
    shutil.rmtree(folder / "crowd")


STEPS = {"steps": 2, "batch": 4, "lr": 0.1}
SIX = {"count": 6, "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}}
RARE = {
    "gossip": ({"waits", "wait-pairs", "graph"}, {
        "topology": "ring", "evaluate": {"measures": ["nodes"]},
        "algorithms": [{"name": "d-psgd", "local": STEPS}, {"name": "dfedavg", "local": STEPS}],
        "clients": SIX, "participation": {},
    }),
    "walks": ({"walk"}, {
        "topology": "ring", "clients": SIX, "participation": {"select": "walk"},
    }),
    "parts": ({"fairness"}, {
        "problem": {"name": "mlp", "hidden": [8], "dataset": CLASSES, "test": 0.25},
        "evaluate": {"measures": ["capacity"]}, "participation": {"cohort": 4},
        "clients": SIX | {"groups": [{"name": "small", "ids": [0, 2], "capacity": 0.5}]},
        "algorithms": [{"name": "fedavg", "local": STEPS}, {"name": "heterofl", "local": STEPS}],
    }),
    "energy": ({"energy"}, {
        "clients": SIX | {
            "network": {"down_mbps": 20, "up_mbps": 5},
            "energy": {"compute_w": 4, "radio": "lte", "g_per_kwh": 300},
        },
        "algorithms": [{"name": "fedavg", "local": STEPS}, {"name": "fedexp", "local": STEPS}],
        "participation": {"cohort": 4},
    }),
    "control": ({"warnings"}, {
        "algorithms": [
            {"name": "fedavg", "local": STEPS},
            {"name": "fedavg", "label": "controlled", "local": STEPS, "control": [
                {"column": "loss", "below": 10, "set": {"cohort": 2, "deadline_s": 20}},
            ]},
        ],
    }),
    "own": ({"convergence"}, {
        "problem": {"name": "own-code", "code": "rare_code", "metrics": {"mae": "lower"}},
        "clients": SIX, "participation": {"cohort": 4},
        "algorithms": [{"name": "fedavg", "local": {
            "name": "own-train", "steps": 4, "state": {"tasks": 1},
            "metrics": {"tasks": None, "gain": "higher"},
        }}],
    }),
}  # fmt: skip
"""Studies with the panels that they alone have."""
RARE_CODE = """
import numpy as np
from rayfed.testing.own_code import client, model, size
from rayfed.testing import own_code

def train(model, data, context):
    found = own_code.train(model, data, context)
    return {**found, "tasks": context.state["tasks"][0], "gain": context.round / 10}

def evaluate(model, data, part):
    return {**own_code.evaluate(model, data, part), "mae": np.abs(data - model["mean"]).mean()}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", RARE)
def test_rare_panels_are_drawn_and_read_well_with_axe(
    page, served, folder, name, tmp_path, monkeypatch
):
    expected, changes = RARE[name]
    (tmp_path / "rare_code.py").write_text(RARE_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    rayfed.run(mixed(name=name, rounds=4, **changes), out=folder / name)
    seen = set()
    views = [at(served, f"/{view}?study=results/{name}") for view in VIEWS]
    for view in (*views, (folder / name / "report.html").as_uri()):
        page.get(view)
        ready(page)
        unfold(page)
        assert page.execute_script(f"return {EMPTY}") == [], view
        read_well(page, view)
        assert [entry["message"] for entry in page.get_log("browser")] == [], view
        seen |= set(page.execute_script("return Object.keys(page.data.panels)"))
    assert expected <= seen
    shutil.rmtree(folder / name)


@contextmanager
def begun(folder, rounds):
    """A study that goes on in a process of its own, ten rounds a second."""
    scenario = mixed(name="going", rounds=rounds, checkpoint={"every_s": 3600})
    path = folder / "going.yaml"
    path.write_text(yaml.safe_dump(scenario | {"clock": {"name": "wall", "scale": 0.005}}))
    out = folder / "going"
    command = [sys.executable, "-m", "rayfed", "run", str(path), "--out", str(out), "--no-page"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 60
    while not any(out.glob("fedavg-seed3/rounds.parquet/part-*")):
        assert time.monotonic() < end
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    yield out, process
    process.kill()
    process.wait()
    shutil.rmtree(out)


@pytest.fixture
def going(folder):
    with begun(folder, rounds=2000) as found:
        yield found


@pytest.mark.slow
def test_a_study_grows_before_ones_eyes_and_is_stopped_resumed_and_extended(page, served, going):
    out, process = going
    page.get(at(served, "/compare?study=results/going"))
    ready(page)
    runs = "page.data.panels.convergence.parts[0].curves.runs"
    last = f"Math.max(...{runs}.flatMap((run) => run.data.round))"
    page.execute_script("window.same = true")
    accuracy = "document.querySelector('[data-y=accuracy]')"  # once there is a row
    wait(page, f"{accuracy} && ({accuracy}.click(), true)")
    wait(page, "document.getElementById('convergence').layout.yaxis.title.text == 'accuracy'")
    # The next answer brings this line back above the figure.
    page.execute_script("document.getElementById('answer-target').remove()")
    page.execute_script("window.scrollTo(0, 40)")  # a page without rows is too short for it
    place = page.find_element(By.CSS_SELECTOR, "#convergence .nsewdrag")
    ActionChains(page).drag_and_drop_by_offset(place, 120, 40).perform()
    zoom = page.execute_script("return document.getElementById('convergence').layout.xaxis.range")
    assert page.execute_script("return window.scrollY") > 0
    top = "document.getElementById('convergence').getBoundingClientRect().top"
    seen = page.execute_script(f"return {top}")
    before = page.execute_script(f"return {last}")
    wait(page, f"{last} > arguments[0] + 20", before)
    kept = f"[window.same, {top}, document.getElementById('convergence').layout.xaxis.range]"
    same, now, range_now = page.execute_script(f"return {kept}")
    assert (same, range_now) == (True, zoom)
    assert now == pytest.approx(seen, abs=1)  # windows scroll by whole pixels
    assert page.execute_script("return page.view.y") == "accuracy"

    page.get(served.address)
    row = "document.querySelector('[data-study=\"results/going\"]')"
    press(page, f"{row}?.querySelector('[data-do=stop]')")
    assert process.wait(30) == 1  # not all of its runs finished
    wait(page, f"{row}?.querySelector('[data-do=resume]')")
    assert "stopped" in page.find_element(By.CSS_SELECTOR, "[data-run^='results/going']").text
    assert is_stop_requested(out / "fedavg-seed3")
    reached = int(rayfed.load(out).rounds["round"].max())
    page.execute_script(f"{row}.querySelector('details').open = true")
    page.execute_script(f"{row}.querySelector('[name=seeds]').value = '4'")
    page.execute_script(f"{row}.querySelector('[data-do=extend]').click()")
    wait(
        page,
        "document.querySelector('[data-run=\"results/going/fedavg-seed3\"][data-status=running]')",
    )
    press(page, f"{row}?.querySelector('[data-do=stop]')")
    end = time.monotonic() + 30
    while len((out / "history.jsonl").read_text().splitlines()) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    noted = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert [line["what"] for line in noted] == ["stop", "extend", "stop"]
    assert noted[1]["seeds"] == [3, 4]
    wait(page, f"{row}?.querySelector('[data-do=resume]')")
    assert int(rayfed.load(out).rounds["round"].max()) >= reached


@pytest.mark.slow
def test_a_browser_that_is_killed_leaves_the_study_and_the_server_alone(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    looks, look_of = [], Catalogue.look
    monkeypatch.setattr(
        Catalogue, "look", lambda self: looks.extend(self.roots.values()) or look_of(self)
    )
    served = start([folder], token=False)
    with begun(folder, rounds=100) as (out, process):
        driver = opened(tmp_path / "profile")
        try:
            driver.get(f"{served.address}compare?study=results/going")
            ready(driver)
            wait(driver, "page.data.panels.convergence")  # the first rows have come by themselves
            assert connections(served)
            (browser,) = psutil.Process(driver.service.process.pid).children()
            browser.kill()
            assert process.poll() is None
            end = time.monotonic() + 10
            while connections(served) and time.monotonic() < end:
                time.sleep(0.05)
            assert connections(served) == []
        finally:
            driver.service.stop()
        time.sleep(2 * LOOK_S)
        looked = looks.count(folder)
        time.sleep(2 * LOOK_S)
        assert looks.count(folder) == looked > 0  # nobody listens any more
        assert process.wait(60) == 0, process.stderr.read()
        assert outcomes(out) == {"fedavg-seed3": "finished"}
        with urllib.request.urlopen(f"{served.address}compare.json?study=results/going") as answer:
            (run,) = json.load(answer)["data"]["panels"]["convergence"]["parts"][0]["curves"][
                "runs"
            ]
        assert run["data"]["round"][-1] == 100
    served.close()


def connections(served):
    """The connections of others to a server of this process."""
    port = urlsplit(served.address).port
    held = psutil.Process().net_connections("tcp")
    return [one for one in held if one.laddr.port == port and one.raddr]
