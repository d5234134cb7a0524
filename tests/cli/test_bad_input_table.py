"""Every bad input ends within seconds in status 2 and at most three short lines."""

import resource
import subprocess
import sys
import time

import pytest

from rayfed.cli import main as cli
from tests.cli.bad_input_table import cases, files

LONGEST_S = 10.0
TABLE = list(cases())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bad")
    files(made)
    return made


def accepted(text, line):
    """Check the form of what was printed, and what it names."""
    lines = text.splitlines()
    assert text.startswith("rayfed: ")
    assert len(lines) <= 3
    assert max(map(len, lines)) <= 300
    assert line in text
    assert "Traceback" not in text
    assert text.isprintable() or text.replace("\n", "").isprintable()


def test_the_table_is_long_enough():
    assert len(TABLE) >= 400
    assert len({name for name, *_ in TABLE}) == len(TABLE)


def test_the_scenario_of_the_table_is_right(folder, monkeypatch, capsys):
    """Otherwise every message could be about something else."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["rayfed", "check", "small.yaml"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "arguments", "line"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE]
)
def test_it_is_refused(text, arguments, line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "ray", None)  # nothing is started
    if text is not None:
        (folder / "bad.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(sys, "argv", ["rayfed", *arguments])
    begun = time.monotonic()
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert time.monotonic() - begun < LONGEST_S
    printed = capsys.readouterr()
    assert end.value.code == 2, printed.err
    assert printed.out == ""
    accepted(printed.err, line)


REAL = (
    "override: half of a character", "override: very nested brackets", "file: 100,000 dashes",
    "file: a bomb of aliases", "plug-in: boom:X", "model: empty.npz", "data: wide.csv",
    "command: a pipe", "command: a device", "command: half of a character",
    "command: no such command", "command: no such option", "matrix: far.csc.npz",
    "override: features without number", "trace: topology={name: trace, path: /dev/zero}",
)  # fmt: skip
MOST_BYTES = 2**33  # of addresses, for each


def _little():
    """Let a process have so little memory that what it allocates by mistake harms nobody."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def test_some_as_real_commands(folder, tmp_path):
    """Processes of their own, at once: arguments as bytes, streams that are no terminals."""
    by_name = {name: rest for name, *rest in TABLE}
    running = []
    for name in REAL:
        text, arguments, line = by_name[name]
        if text is not None:
            file = folder / f"{name.partition(': ')[2]}.yaml"
            file.write_text(text)
            arguments = ["check", file.name]
        command = [sys.executable, "-m", "rayfed", *arguments]
        with (tmp_path / name.replace("/", "-")).open("wb") as out:
            process = subprocess.Popen(command, cwd=folder, stderr=out, preexec_fn=_little)
            running.append((name, line, process, out))
    for name, line, process, out in running:
        assert process.wait(timeout=60) == 2, name
        with open(out.name, encoding="utf-8") as held:
            accepted(held.read(), line)
