"""The commands of docs/howto/cluster.md on two machines, each a network namespace of its own."""

import shutil
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest
import yaml

import rayfed
from rayfed.testing.compare import assert_same_results
from tests.contract.test_placement import wait_for
from tests.fakes.namespaces import Forbidden, TwoMachines

pytestmark = [pytest.mark.ray, pytest.mark.slow]

BIN = Path(sysconfig.get_path("scripts"))
TOKENS = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": None}
STUDY = {
    "name": "two",
    "rounds": 40,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 12},
    "algorithms": ["scaffold"],
    "checkpoint": {"every_s": 0.5},
}
LONG = STUDY | {"clock": {"name": "wall", "scale": 0.05}}  # there is time to lose a node


@pytest.fixture
def machines(tmp_path):
    try:
        with TwoMachines(tmp_path) as made:
            yield made
    except Forbidden as error:
        pytest.skip(f"no network namespaces here: {error}")


@pytest.fixture
def session():
    """A short folder for the sockets of both nodes."""
    folder = Path(tempfile.mkdtemp(prefix="rf-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def ray(machine, *words):
    """Type a command of Ray on a machine, and return its exit status and what it says."""
    done = machine.called(BIN / "ray", *words, **TOKENS)
    return done.returncode, done.stdout


def join(machine, head):
    return ray(
        machine, "start", f"--address={head.address}:6379",
        f"--node-ip-address={machine.address}", "--num-cpus=2", "--disable-usage-stats",
    )  # fmt: skip


def test_a_node_needs_the_token_and_may_be_lost(machines, session, tmp_path):
    head, worker = machines.head, machines.worker
    status, said = ray(head, "get-auth-token", "--generate")
    assert status == 0, said
    status, said = ray(
        head, "start", "--head", "--port=6379", f"--node-ip-address={head.address}",
        "--num-cpus=2", f"--temp-dir={session}", "--include-dashboard=false",
        "--disable-usage-stats",
    )  # fmt: skip
    assert status == 0, said

    status, said = join(worker, head)  # as the page says of a node without the file
    assert status != 0
    assert "token" in said.lower()
    (worker.home / ".ray").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(head.home / ".ray" / "auth_token", worker.home / ".ray" / "auth_token")
    (worker.home / ".ray" / "auth_token").chmod(0o600)
    status, said = join(worker, head)
    assert status == 0, said

    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG))
    out = tmp_path / "out"
    words = ("run", tmp_path / "long.yaml", "--address", f"{head.address}:6379", "--out", out)
    sets = ("--set", "executor.clients_per_actor=4", "--set", "executor.driver_hosts=false")
    command = head.started(BIN / "rayfed", *words, *sets, "--no-page", **TOKENS)
    wait_for(lambda: list(out.glob("*/checkpoint/manifest.json")), 240)
    time.sleep(1)
    worker.unplug()
    said, _ = command.communicate(timeout=300)
    assert command.returncode == 0, said
    (log,) = (path.read_text() for path in out.glob("*/log.txt"))
    assert "to replay" in log, log
    calm = rayfed.run(STUDY | {"executor": "serial"}, out=tmp_path / "calm", page=False).folder
    assert_same_results(calm, out)
