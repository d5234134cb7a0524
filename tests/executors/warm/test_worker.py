"""The script that asks for a worker, and the process that forks one: without Ray."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from rayfed.executors.warm import agent, worker

COMMAND = ["/ray/default_worker.py", "--worker-id=7"]
PLAIN = ["--language=PYTHON", "--serialized-runtime-env-context={}"]


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What the warm process is asked for, by one that answers the first who asks."""
    path = tmp_path / "workers"
    monkeypatch.setenv(agent.SOCKET, str(path))
    heard = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer():
            try:
                connection, _ = server.accept()
            except OSError:  # nobody asked
                return
            with connection, connection.makefile("rb") as lines:
                heard.append(json.loads(lines.readline()))
                connection.sendall(b"123")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield heard


def test_a_worker_is_asked_for_with_its_command_and_environment(asked):
    assert worker.forked([*COMMAND, *PLAIN])
    (command, environment) = asked[0]
    assert command == COMMAND
    assert environment == dict(os.environ)


@pytest.mark.parametrize(
    "special", ["--language=JAVA", '--serialized-runtime-env-context={"env_vars": {"A": "b"}}']
)
def test_a_worker_that_is_not_plain_is_left_to_ray(asked, special):
    assert not worker.forked([*COMMAND, special])
    assert not asked


def test_where_nobody_forks_workers_they_are_left_to_ray(tmp_path, monkeypatch):
    monkeypatch.setenv(agent.SOCKET, str(tmp_path / "nobody"))
    assert not worker.forked([*COMMAND, *PLAIN])


WORKER = """
import json, os, sys
said = {"argv": sys.argv[1:], "name": __name__, "mine": os.environ["MINE"],
        "group": os.getpgid(0) == os.getpid(), "warm": "rayfed.executors.ray_host" in sys.modules}
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(said, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""


def test_a_forked_worker_is_as_if_started_by_its_command(tmp_path, monkeypatch):
    monkeypatch.setenv(agent.SOCKET, str(tmp_path / "workers"))
    monkeypatch.setenv(agent.MODULES, "rayfed.algorithms.fedavg,no.such_module")
    given = [f"--session-dir={tmp_path}", "--node-id=ab12"]
    warm = subprocess.Popen([sys.executable, agent.__file__, "ray/agent.py", *given])
    try:
        ports = [tmp_path / f"{name}_port_ab12" for name in agent.PORTS]
        _wait_for(lambda: all(port.is_file() for port in ports))
        assert len({int(port.read_text()) for port in ports}) == 4
        (tmp_path / "default_worker.py").write_text(WORKER)
        said = tmp_path / "said"
        monkeypatch.setenv("MINE", "of the worker")
        assert worker.forked([str(tmp_path / "default_worker.py"), str(said), *PLAIN])
        _wait_for(said.is_file)
        assert json.loads(said.read_text()) == {
            "argv": [str(said)], "name": "__main__", "mine": "of the worker", "group": True,
            "warm": True,
        }  # fmt: skip
    finally:
        warm.terminate()
        warm.wait()


def _wait_for(there):
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)
