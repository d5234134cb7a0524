"""Every bad input ends within seconds in status 2 and at most three short lines."""

import json
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


EXECUTED = (  # arguments as bytes, and streams that the shell gives
    "override: half of a character", "command: a pipe", "command: a device",
    "command: half of a character",
)  # fmt: skip
FORKED = (
    "override: very nested brackets", "file: 100,000 dashes", "file: a bomb of aliases",
    "plug-in: boom:X", "model: empty.npz", "data: wide.csv", "command: no such command",
    "command: no such option", "matrix: far.csc.npz", "override: features without number",
    "trace: topology={name: trace, path: /dev/zero}",
)  # fmt: skip
"""They need a process that may do harm, but not a start of Python of their own."""
MOST_BYTES = 2**33  # of addresses, for each
FORKS = """
import json, os, sys
from rayfed import api
from rayfed.cli.main import main

running = {}
for name, arguments, out in json.load(sys.stdin):
    child = os.fork()
    if not child:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 2)
        sys.argv[1:] = arguments
        main()
        sys.exit()
    running[name] = child
for name, child in running.items():
    running[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(running))
"""


def _little():
    """Let a process have so little memory that what it allocates by mistake harms nobody."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def _real(names, folder, tmp_path):
    """Return the names, arguments, files of errors and lines of commands."""
    by_name = {name: rest for name, *rest in TABLE}
    found = []
    for name in names:
        text, arguments, line = by_name[name]
        if text is not None:
            file = folder / f"{name.partition(': ')[2]}.yaml"
            file.write_text(text)
            arguments = ["check", file.name]
        found.append((name, arguments, tmp_path / name.replace("/", "-"), line))
    return found


def test_some_as_real_commands(folder, tmp_path):
    """Processes of their own, at once: arguments as bytes, streams that are no terminals."""
    running = []
    for name, arguments, out, line in _real(EXECUTED, folder, tmp_path):
        command = [sys.executable, "-m", "rayfed", *arguments]
        with out.open("wb") as stderr:
            process = subprocess.Popen(command, cwd=folder, stderr=stderr, preexec_fn=_little)
        running.append((name, line, process, out))
    for name, line, process, out in running:
        assert process.wait(timeout=60) == 2, name
        accepted(out.read_text(encoding="utf-8"), line)


def test_some_in_processes_with_little_memory(folder, tmp_path):
    """Begun by one that has imported rayfed."""
    found = _real(FORKED, folder, tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", FORKS], cwd=folder, preexec_fn=_little, text=True, timeout=300,
        input=json.dumps([(name, arguments, str(out)) for name, arguments, out, _ in found]),
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == dict.fromkeys(FORKED, 2)
    for *_, out, line in found:
        accepted(out.read_text(encoding="utf-8"), line)
