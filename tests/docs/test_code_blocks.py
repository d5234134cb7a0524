"""What the pages show runs: Python and rayfed commands are executed, scenarios are loaded.

The blocks of a page run in their order, in one empty folder, and Python blocks share their names. A
block with a caption is also written to the file of that name, so that later blocks can use it.
"""

import logging
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from rayfed.api import Result
from rayfed.cli.main import app
from rayfed.study import Study, load

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>python|bash|yaml)\n"
    r"(?::caption: (?P<file>[^\n]+)\n\n?)?(?P<code>.*?)^```$",
    re.M | re.S,
)
SMALLEST = {
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 10},
    "algorithms": ["fedavg"],
    "rounds": 1,
}


class Block(NamedTuple):
    language: str
    file: str | None
    code: str


def blocks(page):
    """Return the blocks of a page that are checked."""
    found = [Block(**match.groupdict()) for match in FENCE.finditer(page.read_text("utf-8"))]
    return [b for b in found if b.language != "bash" or b.code.startswith("rayfed ")]


def pages():
    """Return every written page that has such blocks."""
    hidden = ("_build", "_ext", "generated")
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    kept = [page for page in found if not set(page.relative_to(ROOT).parts) & set(hidden)]
    return [page for page in kept if blocks(page)]


def test_pages_of_every_section_have_blocks():
    names = {page.relative_to(ROOT).parts[:2] for page in pages()}
    assert names >= {("README.md",), *(("docs", name) for name in ("install.md", "howto"))}


PAGES = ("quickstart", "own-panel", "own-measure")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_block_of_a_page_works(page, tmp_path, monkeypatch):
    """The pages of figures that runs write are those of PAGES alone; they take longer."""
    used = {
        found for b in blocks(page) for found in re.findall(r"^(?:import|from) (\w+)", b.code, re.M)
    }
    if "torch" in used:
        pytest.importorskip("torch")
    if "transformers" in used:
        pytest.importorskip("transformers")
        pytest.importorskip("peft")
    if "sklearn" in used:
        pytest.importorskip("sklearn")
    if "jax" in used:
        pytest.importorskip("jax")
    if page.stem not in PAGES:
        monkeypatch.setattr(Result, "report", lambda result, **_: result.folder / "report.html")
    shutil.copy(ROOT / "scenarios" / "quickstart.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {"__name__": "__main__"}
    before = set(sys.modules)
    logger = logging.getLogger("rayfed")
    level, handlers = logger.level, list(logger.handlers)
    try:
        for number, block in enumerate(blocks(page), start=1):
            if block.file:
                (tmp_path / block.file).write_text(block.code)
            CHECKS[block.language](block, names, f"{page.name}, block {number}")
    finally:  # modules that a page wrote, and lines that it asked for
        logger.setLevel(level)
        logger.handlers[:] = handlers
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def run_python(block, names, where):
    if not (block.file or "").endswith(".py"):
        exec(compile(block.code, where, "exec"), names)


def run_commands(block, names, where):
    for line in block.code.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "rayfed", where
        outcome = CliRunner().invoke(app, arguments)
        assert outcome.exit_code == 0, f"{where}: {line}\n{outcome.output}"


def load_scenario(block, names, where):
    keys = yaml.safe_load(block.code)
    if "base" in keys:
        load(block.file)
        return
    whole = keys if "problem" in keys else SMALLEST | keys  # or some keys of one
    Study.parse(whole, root=Path.cwd())


def test_lines_from_other_simulators_are_settings_of_clients():
    text = (ROOT / "docs" / "howto" / "devices.md").read_text("utf-8")
    lines = re.findall(r"^\| \w+ \|.*?\| `(.*?)`", text, re.M)
    for line in (line for line in lines if "file:" not in line):
        keys = yaml.safe_load(re.sub(r"\b[bcp]\b(?=[,}])", "0.5", line))
        Study.parse(SMALLEST | {"clients": SMALLEST["clients"] | keys})
    assert len(lines) > 12


CHECKS = {"python": run_python, "bash": run_commands, "yaml": load_scenario}
