"""A page of 36 runs in a real browser: its size, its height, its folds and its console."""

import re

import pytest

from rayfed.report.page import report
from tests.fakes.chromium import CHROMIUM, DRIVER, look, opened, wait

axe = pytest.importorskip("selenium_axe_python", reason="selenium-axe-python is not installed")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]

SKEWS = (0.1, 0.5, 5.0)
CLOSED = "document.querySelectorAll('.more:not([open])').length"
DRAWN = "[...document.querySelectorAll('.more .plot')].filter((one) => one.on).length"
FOLDED = "document.querySelectorAll('.more .plot').length"


@pytest.fixture(scope="module")
def path(tmp_path_factory, run_writer, study_writer):
    """The page of four algorithms at three levels of skew with three seeds."""
    folder = tmp_path_factory.mktemp("light") / "study"
    labels = [f"algorithm {k}" for k in range(4)]
    study_writer(folder, labels, seeds=3, rounds=30, cases=SKEWS)
    written = report.write(folder)
    assert len(list(folder.glob("*/run.json"))) == 36
    return written


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = opened(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, path):
    """Return a function that opens the page at a width, and at an anchor."""

    def show(width, anchor=""):
        browser.get("about:blank")
        look(browser, width, 844)
        browser.get(path.as_uri() + anchor)
        wait(browser, "document.body.dataset.ready === 'true'")
        return browser

    return show


def height(driver):
    return driver.execute_script("return document.documentElement.scrollHeight")


def test_a_page_of_36_runs_is_small_and_names_no_figure_twice(path):
    assert path.stat().st_size < 6_000_000
    places = re.findall(r'class="plot" id="([^"]+)"', path.read_text("utf-8"))
    assert len(places) == len(set(places)) > 10


@pytest.mark.parametrize(("width", "most"), [(1280, 6000), (390, 6000)])
def test_most_figures_are_folded_and_not_drawn(page, width, most):
    driver = page(width)
    assert height(driver) <= most
    assert driver.execute_script(f"return [{DRAWN}, {FOLDED} > 5]") == [0, True]
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def test_a_fold_opens_by_the_keyboard_and_draws_its_figures(page):
    driver = page(1280)
    summary = driver.find_element("css selector", "section:has(#timeline) .more > summary")
    driver.execute_script("arguments[0].focus()", summary)
    summary.send_keys("\n")
    inside = "[...document.querySelectorAll('section:has(#timeline) .more[open] .plot')]"
    wait(driver, f"{inside}.some((one) => one.data?.length)")
    assert driver.execute_script("return document.querySelector('#against').data") is None
    driver.execute_script(
        "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
    )
    wait(driver, f"{DRAWN} === {FOLDED}")
    driver.execute_script("document.querySelector('[data-y=accuracy]').click()")
    wait(driver, "document.querySelector('#finals').layout.xaxis.title.text === 'final accuracy'")
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def test_a_link_to_a_folded_figure_opens_its_fold(page):
    driver = page(1280, "#waste")
    wait(driver, "document.querySelector('#waste').closest('details').open")
    wait(driver, "document.querySelector('#waste').data?.length")


def test_printing_opens_all_folds_and_closes_them_again(page):
    driver = page(1280)
    closed = driver.execute_script(f"return {CLOSED}")
    assert closed
    driver.execute_script(f"addEventListener('beforeprint', () => (window.left = {CLOSED}))")
    driver.execute_cdp_cmd("Page.printToPDF", {})
    assert driver.execute_script("return window.left") == 0
    wait(driver, f"{DRAWN} === {FOLDED}")
    wait(driver, f"{CLOSED} === {closed}")


def test_a_phone_shows_a_figure_first_and_tables_that_scroll(page):
    driver = page(390)
    first = "document.querySelector('#levels').getBoundingClientRect()"
    wait(driver, f"{first}.bottom < 844")
    wide = "document.querySelector('#results').parentElement"
    assert driver.execute_script(f"return {wide}.scrollWidth > {wide}.clientWidth")
    assert "gradient" in driver.execute_script(f"return getComputedStyle({wide}).backgroundImage")
    name = "document.querySelector('#results td').getBoundingClientRect().left"
    assert driver.execute_script(f"{wide}.scrollTo(200, 0); return {name} >= 0")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_reads_well_with_axe_with_folds_closed_and_open(page, width, scheme):
    driver = page(width)
    look(driver, width, 844, scheme)
    for fold in ("false", "true"):
        driver.execute_script(
            f"document.querySelectorAll('.more').forEach((one) => (one.open = {fold}))"
        )
        wait(driver, f"document.documentElement.scrollWidth <= {width}")
        checker = axe.Axe(driver)
        checker.inject()
        found = checker.run()["violations"]
        assert found == [], [(one["id"], [n["target"] for n in one["nodes"]]) for one in found]


def test_a_phone_shows_curves_before_a_table_of_cases_by_name(
    browser, tmp_path, run_writer, study_writer
):
    """Cases that differ by no number have no figure beside their table."""
    folder = tmp_path / "study"
    study_writer(folder, ["a", "b"], seeds=2, rounds=5, cases=("low", "high"))
    written = report.write(folder)
    look(browser, 390, 844)
    browser.get(written.as_uri())
    wait(browser, "document.body.dataset.ready === 'true'")
    assert browser.execute_script("return document.querySelector('.tabled') !== null")
    top = "document.querySelector('#{}').getBoundingClientRect().top"
    assert browser.execute_script(f"return {top.format('convergence')}") < 844
    assert browser.execute_script(f"return {top.format('convergence')} < {top.format('pivot')}")
    look(browser, 1280, 844)
    wait(browser, f"{top.format('convergence')} > {top.format('pivot')}")
