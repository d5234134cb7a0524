"""The documentation builds without a warning, and every link in it leads somewhere."""

import posixpath
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
)
THERE = """
return location.href === arguments[0] && document.readyState === "complete"
    && document.querySelectorAll(".math").length > 0
"""
RENDERED = "return [...document.querySelectorAll('.math')].every(e => e.querySelector('svg'))"
BROKEN = "return document.querySelectorAll('mjx-merror, [data-mjx-error]').length"
CUT = """
return Math.max(0, ...[...document.querySelectorAll(".table-wrapper")]
    .map(e => e.scrollWidth - e.clientWidth))
"""
OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"


class Page(HTMLParser):
    """Collects the anchors, links and loaded files of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site and return its pages by path."""
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    places = ["-d", str(out / "doctrees"), str(DOCS), str(out / "html")]
    done = subprocess.run([*command, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = sorted((out / "html").rglob("*.html"))
    pages = {str(p.relative_to(out / "html")): Page(p.read_text("utf-8")) for p in found}
    return out / "html", pages


def test_the_site_has_its_sections(site):
    _, pages = site
    for name in ("index", "quickstart", "architecture", "design/index", "concepts/promises"):
        assert f"{name}.html" in pages
    for name in (
        "scenario",
        "columns",
        "combinations",
        "commands",
        "interface",
        "gallery/algorithms/fedexp",
    ):
        assert f"generated/{name}.html" in pages


def test_the_example_report_is_in_the_site_and_linked(site):
    home, pages = site
    for name in ("index.html", "study.html"):
        assert "example/report.html" in pages[name].links
    report = (home / "example" / "report.html").read_text("utf-8")
    assert "FedExP reached loss" in report
    assert str(DOCS.parent) not in report


def test_no_internal_link_is_dead(site):
    home, pages = site
    dead = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.join(posixpath.dirname(name), unquote(parts.path))
            target = posixpath.normpath(path) if parts.path else name
            anchor = unquote(parts.fragment)
            if not (home / target).is_file() or (anchor and anchor not in pages[target].anchors):
                dead.append(f"{name}: {link}")
    assert dead == []


def test_nothing_is_loaded_from_a_network(site):
    home, pages = site
    for name, page in pages.items():
        for path in page.loaded:
            parts = urlsplit(path)
            if parts.scheme == "data":  # within the example report
                continue
            assert (parts.scheme, parts.netloc) == ("", ""), f"{name} loads {path}"
            assert (home / posixpath.dirname(name) / parts.path).resolve().is_file()
    for sheet in home.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", sheet.read_text("utf-8"))


def test_pages_with_formulas_load_mathjax_from_the_site(site):
    home, pages = site
    with_formulas = [name for name in pages if 'class="math' in (home / name).read_text("utf-8")]
    page = "generated/gallery/algorithms/fedexp.html"
    assert {"concepts/weights.html", page} <= set(with_formulas)
    for name in with_formulas:
        scripts = [posixpath.basename(urlsplit(path).path) for path in pages[name].loaded]
        assert "tex-svg.js" in scripts, name
    script = (home / "_static" / "tex-svg.js").read_text("utf-8")
    assert "MathJax" in script


@pytest.fixture(scope="module")
def browser():
    """A browser that reaches no network."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(flag)
    service = webdriver.chrome.service.Service(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def wait(browser, script, *arguments):
    """Return what a script returns as soon as it is no longer false."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 20).until(lambda b: b.execute_script(script, *arguments))


@pytest.mark.browser
def test_formulas_are_rendered_without_a_network(site, browser):
    home, _ = site
    generated = [f"generated/gallery/{name}" for name in ("algorithms/fedexp", "delays")]
    for name in ("concepts/weights", *generated):
        page = (home / f"{name}.html").as_uri()
        browser.get(page)  # on a busy machine it may return before the page is there
        assert wait(browser, THERE, page)
        assert wait(browser, RENDERED)
        assert browser.execute_script(BROKEN) == 0


@pytest.mark.browser
def test_no_page_is_wider_than_a_phone(site, browser):
    home, pages = site
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    sections = (
        "install",
        "study",
        "generated/studies",
        "concepts",
        "howto",
        "index",
        "reference",
        "generated/gallery",
        "generated/scenario",
    )
    for name in pages:
        if name.startswith(sections):
            browser.get((home / name).as_uri())
            assert browser.execute_script(OVERFLOW) <= 0, name


@pytest.mark.browser
def test_no_table_of_the_studies_or_of_speed_is_cut_on_a_small_screen(site, browser):
    home, pages = site
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    wide = {}
    for name in pages:
        if name.startswith(("generated/studies", "reference/speed", "study")):
            browser.get((home / name).as_uri())
            wide[name] = browser.execute_script(CUT)
    assert len(wide) > 40
    assert {name: cut for name, cut in wide.items() if cut > 0} == {}


def test_links_to_algorithms_on_one_page_still_lead_to_them(site):
    """As they were before each had a page of its own."""
    _, pages = site
    assert {"fedexp", "algorithms-fedexp"} <= set(
        pages["generated/gallery/algorithms.html"].anchors
    )


@pytest.mark.browser
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("fedexp", "gallery/algorithms/fedexp.html"),
        ("install", "/install.html"),
        ("vertical", "concepts/scope.html"),
        ("attention", "concepts/scope.html"),
        ("HuggingFace", "concepts/scope.html"),
        ("energy", "concepts/scope.html"),
        ("label noise", "concepts/scope.html"),
        ("dropout of clients", "concepts/scope.html"),
        ("client dropout", "concepts/scope.html"),
    ],
)
def test_search_finds_what_people_look_for(site, browser, words, page):
    home, _ = site
    browser.get((home / "search.html").as_uri() + f"?q={quote(words)}")
    found = "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
    wait(browser, f"return {found}.some(link => link.includes(arguments[0]))", page)
