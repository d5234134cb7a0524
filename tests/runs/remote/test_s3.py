"""A machine dies, and another goes on by the URL: against a server that speaks S3."""

import json
import os
import subprocess
import sys
import time

import pytest

import rayfed
from rayfed.cli import main
from rayfed.core.errors import ScenarioError
from rayfed.runs.remote.objects import Objects
from rayfed.testing.studies import mixed

STATEFUL = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
STUDY = mixed(rounds=12, seeds=[0, 1], algorithms=[STATEFUL], checkpoint={"every_s": 0.1})
RUN = """
import sys, time
from rayfed.cli import main
from rayfed.runs import progress
from rayfed.runs.remote import copies
copies.EVERY_S = 0.05
progress.LogLines.runs = lambda *said: time.sleep(0.15)
sys.argv[1:] = ["run", "study.yaml", "--out", sys.argv[1]]
main.main()
"""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    from moto.server import ThreadedMotoServer  # here: it takes long, also where no test runs

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(server, monkeypatch, request):
    """The URL of an empty bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    name = request.node.name.replace("_", "-")
    fs = Objects(f"s3://{name}/study").fs
    fs.mkdir(name)
    yield f"s3://{name}"
    fs.clear_instance_cache()


def test_a_study_outlives_its_machine(s3, tmp_path, monkeypatch, assert_same):
    monkeypatch.setattr(rayfed.Result, "report", lambda result, **_: None)
    calm = rayfed.run(STUDY, out=tmp_path / "calm").folder
    (tmp_path / "study.yaml").write_text(json.dumps(STUDY))
    url = f"{s3}/deep/study"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, url], cwd=tmp_path, stdout=subprocess.DEVNULL,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "first")},
    )  # fmt: skip
    try:
        wait_for_round(Objects(url), "local-only-seed1", 3)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    result = rayfed.resume(url)  # in another cache folder: the copy of the first is not there
    assert not (result.folder / "local-only-seed1" / "log.txt").exists()  # nothing was damaged
    assert_same(calm, result.folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
    assert_same(calm, rayfed.load(url).folder)


def wait_for_round(objects, run, number):
    """Wait until the checkpoint of a round is remote."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        manifest = objects.read(f"{run}/checkpoint/manifest.json")
        if manifest is not None and json.loads(manifest)["round"] >= number:
            return
        time.sleep(0.05)
    raise TimeoutError(f"no checkpoint of round {number}")


def test_without_a_bucket_or_keys_nothing_starts(s3, monkeypatch, capsys):
    with pytest.raises(ScenarioError, match=r"s3://none/x: cannot be .*bucket does not exist"):
        rayfed.run(STUDY, out="s3://none/x")
    with pytest.raises(ScenarioError, match="/x: is no result folder"):
        rayfed.load(f"{s3}/x")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    Objects(f"{s3}/study").fs.clear_instance_cache()
    monkeypatch.setattr(sys, "argv", ["rayfed", "report", f"{s3}/study"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert err == f"rayfed: {s3}/study: cannot be read (Unable to locate credentials)\n"
