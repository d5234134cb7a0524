"""Ray on this machine: who listens, how it starts and ends, and what outlives it."""

import ipaddress
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
import ray
import yaml

import rayfed
from rayfed.core.errors import RayfedError
from rayfed.runs.ray import node as ray_node
from rayfed.runs.ray.backend import RayStudy
from rayfed.runs.ray.node import RayNode, found, keep_private
from tests.contract.test_placement import wait_for

HERE = SimpleNamespace(address_info={"session_dir": "nowhere"})


# -- without Ray -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sockets", "line"),
    [
        ({("127.0.0.1", 1), ("::ffff:127.0.0.1", 2), ("::1", 3)}, "on the loopback address"),
        ({("127.0.0.1", 1), ("0.0.0.0", 2), ("::", 3)}, "on the network, at 0.0.0.0, ::, behind"),
        ({("::ffff:192.0.2.2", 2)}, "on the network, at ::ffff:192.0.2.2, behind no token"),
    ],
)
def test_who_listens_in_a_line(sockets, line, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert line in found(sockets)


@pytest.fixture
def ours():
    """Handlers that interrupt, as the command line sets them.

    That of SIGINT too: in a job in the background a shell has it ignored.
    """

    def interrupt(number, frame):
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupt) for number in numbers]
    yield interrupt
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_the_wish_to_end_is_not_left_to_ray(monkeypatch, ours):
    def init(**_):
        signal.signal(signal.SIGTERM, lambda *_: None)
        return HERE

    monkeypatch.setattr(ray, "init", init)
    ray_node.start(None, 1)
    assert signal.getsignal(signal.SIGTERM) is ours


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_ray_has_started(number, monkeypatch, ours):
    steps = []

    def init(**_):
        os.kill(os.getpid(), number)
        steps.append("started")
        return HERE

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: steps.append("ended"))
    with pytest.raises(KeyboardInterrupt):
        ray_node.start(None, 1)
    assert steps == ["started", "ended"]


def test_rays_own_exit_is_an_interrupt_too(monkeypatch, ours):
    def init(**_):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(KeyboardInterrupt):
        ray_node.start(None, 1)
    assert signal.getsignal(signal.SIGTERM) is ours


def test_a_start_that_fails_is_a_line(monkeypatch):
    def init(**_):
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(RayfedError, match="Ray cannot be started: The current node timed out"):
        ray_node.start(None, 1)


def test_workers_put_first_what_is_first_here(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "script"), str(tmp_path / "here")])
    paths = ray_node._Paths()
    paths.extend([str(tmp_path / "script"), str(tmp_path / "here"), ray_node._HOME])
    assert paths == [str(tmp_path / "script"), ray_node._HOME]


def test_what_a_dead_server_has_started_ends_though_it_is_no_child_any_more(monkeypatch, tmp_path):
    script = "import time; time.sleep(20)"
    with subprocess.Popen([sys.executable, "-c", script]) as agent, ExitStack() as held:
        raylet = Mock(is_running=lambda: False)
        raylet.name = lambda: "raylet"
        below = iter([[psutil.Process(agent.pid), raylet], []])
        monkeypatch.setattr(ray_node, "_rays_processes", lambda before: next(below))
        monkeypatch.setattr(psutil, "wait_procs", lambda ps, timeout: (ps, []))
        monkeypatch.setattr(ray, "shutdown", lambda: None)
        node = RayNode(set(), set(), tmp_path, held)
        assert node.lost() == "raylet"
        node.end()
        assert agent.wait(timeout=20) != 0


def test_where_ray_was_imported_for_clusters_it_is_not_started(monkeypatch):
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.2")
    with pytest.raises(RayfedError, match="would listen on the network, since it was imported"):
        ray_node.start(None, 1)
    assert not ray.is_initialized()


# -- with Ray ----------------------------------------------------------------------------------


@pytest.mark.ray
def test_a_run_listens_to_this_machine_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # which is for clusters
    study = RayStudy(2, 2, None, tmp_path)
    try:
        actor = ray.get(study.study_actors.actors[0].ready.remote())
        mine, its = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, actor))
        assert mine == its
        me = psutil.Process()
        processes = [me, *me.children(recursive=True)]
        assert actor in [process.pid for process in processes]
        sockets = [
            c.laddr.ip for p in processes for c in p.net_connections() if c.status == "LISTEN"
        ]
        assert len(sockets) >= 5  # this process, the store, the raylet twice, the actor
        for address in map(ipaddress.ip_address, sockets):
            assert (getattr(address, "ipv4_mapped", None) or address).is_loopback
        told = "Ray listens on the loopback address of this machine only, behind a token"
        assert study.listens() == told
        assert os.environ["RAY_AUTH_MODE"] == "token"
        private = study.node.logs.parents[2]
        assert private.name.startswith("rayfed-")
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        open_to_all = [path for path in private.rglob("*") if path.is_socket()]
        assert {path.name for path in open_to_all} >= {"raylet", "plasma_store"}
        assert not study.node.logs.is_relative_to("/tmp/ray")
    finally:
        study.close()
    assert not private.exists()
    assert not psutil.Process().children(recursive=True)


@pytest.mark.ray
@pytest.mark.slow
def test_only_who_knows_the_token_is_answered():
    node = ray_node.start(None, 1)
    try:
        address = ray.get_runtime_context().gcs_address
        # Ray's own client of the store: a second driver may join no node on the loopback address
        ask = (
            "from ray._raylet import GcsClient;"
            f"print(len(GcsClient(address={address!r}).get_all_node_info(timeout=10)))"
        )

        def answer(**changed):
            command = [sys.executable, "-c", ask]
            env = os.environ | changed
            ended = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=120, check=False
            )
            return ended.returncode, ended.stdout.strip(), "token auth" in ended.stderr

        assert answer() == (0, "1", False)
        assert answer(RAY_AUTH_TOKEN="0" * 64) == (1, "", True)
        assert answer(RAY_AUTH_MODE="disabled") == (1, "", True)
    finally:
        node.end()


LONG = {
    "name": "long",
    "seeds": [0],
    "rounds": 40,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 6},
    "algorithms": ["scaffold"],
    "checkpoint": {"every_s": 0.1},
    "clock": {"name": "wall", "scale": 0.01},  # so that there is time to kill something
}


@pytest.fixture
def long(tmp_path):
    """A study in a process of its own, as psutil knows it and as its parent does."""
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG))
    command = [sys.executable, "-m", "rayfed", "run", "long.yaml", "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as process:
        yield psutil.Process(process.pid), process
        process.kill()


def named(process, name):
    return [child for child in process.children() if child.name() == name]


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "seen"), [(signal.SIGTERM, "raylet"), (signal.SIGINT, "gcs_server")]
)
def test_a_signal_during_the_start_ends_with_the_way_to_go_on(long, number, seen):
    process, child = long
    wait_for(lambda: named(process, seen), 180)
    born = process.children(recursive=True)
    child.send_signal(number)
    _, said = child.communicate(timeout=180)
    assert child.returncode == 130
    assert said.splitlines()[-1].endswith("resume with: rayfed resume out")
    assert psutil.wait_procs(born, timeout=5)[1] == []


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_where_ray_dies_the_study_ends_and_goes_on_later(long, tmp_path, victim, assert_same):
    process, child = long
    manifest = tmp_path / "out" / "scaffold-seed0" / "checkpoint" / "manifest.json"
    wait_for(manifest.is_file, 180)
    everything = process.children(recursive=True)
    named(process, victim)[0].kill()
    out, said = child.communicate(timeout=180)
    assert child.returncode == 1
    assert said.splitlines()[-1].startswith(f"rayfed: Ray's {victim} has ended; was it killed")
    assert "Raylet is terminated" not in out + said
    assert f"Ray's {victim} has ended" in (manifest.parents[1] / "log.txt").read_text()
    assert psutil.wait_procs(everything, timeout=5)[1] == []
    assert rayfed.resume(tmp_path / "out", page=False).outcome == {"scaffold-seed0": "finished"}
    calm = rayfed.run(
        LONG | {"executor": "serial", "clock": "virtual"}, out=tmp_path / "calm", page=False
    )
    assert_same(calm.folder, tmp_path / "out")


@pytest.mark.ray
@pytest.mark.slow
def test_after_the_death_of_the_study_its_drivers_end(long, tmp_path):
    process, child = long
    run = tmp_path / "out" / "scaffold-seed0"
    wait_for((run / "checkpoint" / "manifest.json").is_file, 180)
    everything = process.children(recursive=True)
    writers = [p for p in everything if "Actor" in " ".join(p.cmdline())]
    assert len(writers) >= 2
    child.kill()
    begun = time.monotonic()
    assert psutil.wait_procs(writers, timeout=20)[1] == []
    assert time.monotonic() - begun < 10


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_for_this_user_alone_and_kept(home):
    keep_private()
    token = home / ".ray" / "auth_token"
    assert (mode(token), mode(token.parent)) == (0o600, 0o700)
    first = token.read_text()
    assert len(bytes.fromhex(first)) == 32
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]
    keep_private()
    assert token.read_text() == first


def test_a_token_that_was_open_is_closed(home, caplog):
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("ab" * 32)
    token.chmod(0o644)  # as Ray writes it
    keep_private()
    assert (mode(token), token.read_text()) == (0o600, "ab" * 32)
    assert f"{token} was open to others" in caplog.text


def test_the_file_that_is_given_is_looked_at(home, monkeypatch):
    given = home / "given"
    given.write_text("ab" * 32)
    given.chmod(0o640)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(given))
    keep_private()
    assert mode(given) == 0o600
    assert not (home / ".ray").exists()


def test_what_cannot_be_kept_is_one_line(home):
    (home / ".ray").write_text("")
    with pytest.raises(RayfedError, match=r"^Ray's token cannot be kept from others \(.*\); set"):
        keep_private()
