"""Ownership of a remote folder, and uploads that fail."""

import json
import time
from unittest import mock

import pytest

import rayfed
from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.files.place import SNAPSHOTS
from rayfed.runs.remote import copies
from rayfed.runs.remote.copies import Copy
from rayfed.runs.remote.objects import OWNER, Objects, Owner, Taken
from rayfed.testing.studies import mixed
from tests.fakes.bucket import bucket
from tests.runs.remote.machine import URL

STUDY = mixed(rounds=3, algorithms=[{"name": "fedavg", "local": {"steps": 2, "batch": 4}}])
RUN = "fedavg-seed3"


class Lines(ProgressDisplay):
    """Keeps the lines for the user; a study that reports is slowed down."""

    def __init__(self, pause_s=0.0):
        self.lines, self.pause_s = [], pause_s

    def note(self, line):
        self.lines.append(line)

    def runs(self, progress, outcome):
        time.sleep(self.pause_s)


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(copies, "RENEW_S", 0.05)
    monkeypatch.setattr(copies, "EVERY_S", 0.02)
    monkeypatch.setattr(rayfed.Result, "report", lambda result, **_: None)  # pages take long


@pytest.fixture
def held():
    with bucket() as store:
        yield store


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Make this another machine, which has no copies; or the first one again."""

    def move(name="elsewhere"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))

    return move


def names():
    return set(Objects(URL).list())


def test_a_study_is_whole_elsewhere(held, calm_study, assert_same, elsewhere):
    rayfed.run(STUDY, out=URL)
    assert {f"{RUN}/run.json", "scenario.yaml", OWNER} <= names()
    assert not any(part in name for name in names() for part in (".lock", ".new", ".old", ".tmp"))
    elsewhere()
    result = rayfed.load(URL)
    assert_same(calm_study, result.folder)
    assert result.outcome == {RUN: "finished"}


@pytest.fixture(scope="module")
def calm_study(tmp_path_factory):
    with mock.patch.object(rayfed.Result, "report"):
        return rayfed.run(STUDY, out=tmp_path_factory.mktemp("calm") / "out").folder


def test_what_differs_alone_is_brought(held, elsewhere, monkeypatch):
    rayfed.run(STUDY, out=URL)
    elsewhere()
    rayfed.load(URL)
    Objects(URL).write("summary.csv", b"new")
    Objects(URL).write("../outside", b"never")
    brought = []
    get = Objects.get
    monkeypatch.setattr(
        Objects, "get", lambda self, files: (brought.extend(files), get(self, files))
    )
    folder = rayfed.load(URL).folder
    assert brought == ["summary.csv"]
    assert (folder / "summary.csv").read_bytes() == b"new"


def test_a_study_is_extended_from_another_machine(held, elsewhere, assert_same, tmp_path):
    longer = {**STUDY, "rounds": 5, "seeds": [3, 8]}
    calm = rayfed.run(longer, out=tmp_path / "calm").folder
    rayfed.run(STUDY, out=URL)
    elsewhere()
    rayfed.extend(URL, rounds=5, seeds=[8])
    assert "history.jsonl" in names()
    elsewhere("third")
    assert_same(calm, rayfed.resume(URL).folder)
    elsewhere("fourth")
    assert_same(calm, rayfed.resume(URL).folder)


def test_what_others_add_beside_the_runs_reaches_the_machine_that_ran_them(held):
    folder = rayfed.run(STUDY, out=URL).folder
    (folder / "mine.csv").write_bytes(b"mine")
    (folder / RUN / "model.npz").write_bytes(b"mine")  # it was not uploaded so
    for content in (b"{}", b"[]"):
        Objects(URL).write("notes.json", content)
        assert rayfed.load(URL).folder == folder
        assert (folder / "notes.json").read_bytes() == content
    Objects(URL).delete(["notes.json"])
    rayfed.load(URL)
    assert not (folder / "notes.json").exists()
    assert (
        (folder / "mine.csv").read_bytes() == (folder / RUN / "model.npz").read_bytes() == b"mine"
    )


@pytest.mark.parametrize("held_instead", [b'{"trunc', b"[1]", b"\xff"])
def test_a_damaged_record_is_mended(held, calm_study, assert_same, elsewhere, held_instead):
    rayfed.run(STUDY, out=URL)
    Objects(URL).write(f"{RUN}/run.json", held_instead)
    elsewhere()
    assert rayfed.load(URL).outcome == {RUN: "failed"}
    assert_same(calm_study, rayfed.resume(URL).folder)


def test_failed_uploads_are_reported_and_retried(held, calm_study, assert_same, elsewhere):
    held.failing = range(2, 6)
    watch = Lines(pause_s=0.1)
    rayfed.run(STUDY, out=URL, watch=watch)
    (line,) = watch.lines
    assert line == (
        f"uploads to {URL} fail (cannot be written (the store is out of reach)); the study goes on "
        f"in {Copy(URL).folder}"
    )
    elsewhere()
    assert_same(calm_study, rayfed.load(URL).folder)


def test_what_cannot_be_uploaded_is_kept_and_named(held, calm_study, assert_same, elsewhere):
    held.failing = range(2, 10**6)
    with pytest.raises(RayfedError, match="not everything was uploaded") as error:
        rayfed.run(STUDY, out=URL)
    folder = Copy(URL).folder
    assert f"all of it is in {folder}, upload it from this machine by: rayfed resume {URL}" in str(
        error.value
    )
    assert_same(calm_study, folder)
    held.failing = range(0)
    assert rayfed.resume(URL).outcome == {RUN: "finished"}
    elsewhere()
    assert_same(calm_study, rayfed.load(URL).folder)


def test_the_last_upload_waits_for_the_store(held, calm_study, assert_same, elsewhere, monkeypatch):
    class Repairing(Lines):
        def note(self, line):
            super().note(line)
            held.failing = range(0)

    monkeypatch.setattr(copies, "FINISH_S", 20.0)
    monkeypatch.setattr(copies.Uploader, "attempt", lambda uploader: None)
    held.failing = range(2, 10**6)
    watch = Repairing()
    assert rayfed.run(STUDY, out=URL, watch=watch).outcome == {RUN: "finished"}
    (line,) = watch.lines
    assert line == (
        f"uploads to {URL} fail (cannot be written (the store is out of reach)); all results are "
        f"in {Copy(URL).folder}, retrying for 20 s"
    )
    elsewhere()
    assert_same(calm_study, rayfed.load(URL).folder)


class Breaking(ProgressDisplay):
    """Breaks the store down once the run of a study has begun there."""

    def __init__(self, held):
        self.held = held

    def runs(self, progress, outcome):
        begun = time.monotonic()
        while not any(path.endswith(f"{RUN}/run.json") for _, path in self.held.done):
            assert time.monotonic() - begun < 20
            time.sleep(0.01)
        self.held.failing = range(self.held.count + 1, 10**6)


def test_what_was_not_uploaded_is_moved_aside_when_the_study_went_on_elsewhere(held, elsewhere):
    with pytest.raises(RayfedError, match="not everything was uploaded"):
        rayfed.run(STUDY, out=URL, watch=Breaking(held))
    here = Copy(URL).folder
    held.failing = range(0)
    elsewhere()
    rayfed.resume(URL)
    elsewhere("cache")
    watch = Lines()
    rayfed.resume(URL, watch=watch)
    assert watch.lines == [f"what was recorded here and not uploaded was moved aside to {here}.1"]


class Renewing:
    """Renews a lock whenever another process waits."""

    def __init__(self, owner, monkeypatch):
        wait = time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: (owner.renew(), wait(seconds)))


def test_one_process_writes_at_a_time(held, monkeypatch):
    first, lines = Owner(Objects(URL), "first"), []
    first.take("", print)
    with monkeypatch.context() as patch:
        Renewing(first, patch)
        with pytest.raises(
            ScenarioError,
            match=r"study: is being written by process \d+ of .*; wait until that ends",
        ):
            Owner(Objects(URL), "second").take("", lines.append)
    (line,) = lines
    assert line.startswith(f"{URL} is locked by process ")
    assert line.endswith("; checking for 0.3 s")
    first.renew(ended=True)
    first.renew()  # one that was under way
    assert Owner(Objects(URL), "third").take("", lines.append) == "first"
    assert len(lines) == 1


def test_a_study_that_runs_elsewhere_is_read_but_not_resumed(held, elsewhere, monkeypatch):
    rayfed.run(STUDY, out=URL)
    other = Owner(Objects(URL), "other")
    other.take(other.session, print)
    elsewhere()
    rayfed.load(URL)
    with monkeypatch.context() as patch:
        Renewing(other, patch)
        with pytest.raises(ScenarioError, match=r"study: is being written by process \d+"):
            rayfed.resume(URL)
    other.renew(ended=True)
    assert rayfed.resume(URL).outcome == {RUN: "finished"}


def test_an_owner_that_renews_no_lock_is_replaced_and_notices(held):
    first = Owner(Objects(URL), "first")
    first.take("", print)
    first.check()
    assert Owner(Objects(URL), "second").take("", lambda line: None) == "first"
    with pytest.raises(Taken, match=r"process \d+ of .* writes bucket://store/study now"):
        first.check()


def test_of_two_that_lock_at_the_same_time_one_is_refused(held, monkeypatch):
    other = Owner(Objects(URL), "other")
    monkeypatch.setattr(time, "sleep", lambda seconds: other.renew())
    with pytest.raises(ScenarioError, match="is being written by"):
        Owner(Objects(URL), "first").take("", print)


def test_a_study_that_another_took_over_ends_with_a_line(held):
    class Robbed(Lines):
        def runs(self, progress, outcome):
            if not self.lines:
                Objects(URL).write(OWNER, b'{"session": "x", "who": "somebody else"}')
            time.sleep(0.1)

    watch = Robbed()
    with pytest.raises(RayfedError, match=r"not everything was uploaded \(somebody else writes"):
        rayfed.run(STUDY, out=URL, watch=watch)
    (line,) = watch.lines
    assert line == (
        f"uploads to {URL} fail (somebody else writes {URL} now); the study goes on in "
        f"{Copy(URL).folder}"
    )


def test_a_new_study_does_not_mix_with_another(held):
    Objects(URL).write("notes.txt", b"mine")
    with pytest.raises(
        ScenarioError, match="is not empty; go on with a study there by rayfed resume"
    ):
        rayfed.run(STUDY, out=URL)
    assert names() == {"notes.txt"}


def test_an_earlier_copy_is_moved_aside(held):
    rayfed.run(STUDY, out=URL)
    Objects(URL).delete(names())
    watch = Lines()
    rayfed.run(STUDY, out=URL, watch=watch)
    (line,) = watch.lines
    assert line.startswith("earlier results moved aside to ")
    assert (Copy(URL).home / "study.1" / RUN / "run.json").is_file()


def test_a_run_is_uploaded_at_each_checkpoint_and_at_its_end(held):
    study = STUDY | {"seeds": [3, 4], "checkpoint": {"every_s": 0}}
    seen = []

    class Look(Lines):
        def runs(self, progress, outcome):
            time.sleep(0.2)
            manifest = Objects(URL).read(f"{RUN}/checkpoint/manifest.json") or b'{"round": -1}'
            record = Objects(URL).read(f"{RUN}/run.json") or b'{"status": ""}'
            seen.append((json.loads(manifest)["round"], json.loads(record)["status"]))

    rayfed.run(study, out=URL, watch=Look())
    assert seen[:3] == [(0, "running"), (1, "running"), (2, "running")]
    assert seen[-1] == (3, "finished")  # while the other run goes on
    assert len(seen) >= 6


def test_without_hard_links_files_are_copied(held, calm_study, assert_same, elsewhere, monkeypatch):
    def refused(*paths, **how):
        raise PermissionError("no links")

    monkeypatch.setattr(copies.os, "link", refused)
    rayfed.run(STUDY, out=URL)
    elsewhere()
    assert_same(calm_study, rayfed.load(URL).folder)


@pytest.mark.guard
def test_no_snapshot_is_made_through_a_link(tmp_path):
    theirs = tmp_path / "theirs"
    (theirs / RUN).mkdir(parents=True)
    (theirs / RUN / "notes.txt").write_text("mine")
    (tmp_path / SNAPSHOTS).symlink_to(theirs)
    rayfed.run(STUDY, out=tmp_path / "out", page=False)
    assert [path.name for path in theirs.rglob("*")] == [RUN, "notes.txt"]


def test_the_lock_is_released_when_a_study_cannot_start(held):
    rayfed.run(STUDY, out=URL)
    with (
        mock.patch.object(copies, "Uploader", side_effect=RayfedError("full")),
        pytest.raises(RayfedError, match="full"),
    ):
        rayfed.resume(URL)
    assert json.loads(Objects(URL).read(OWNER))["ended"]


@pytest.mark.guard
@pytest.mark.parametrize("name", ["report.html", ".owner.json", f"{RUN}/log.txt"])
def test_no_link_in_a_folder_of_this_machine_is_followed(tmp_path, name):
    out, mine = tmp_path / "theirs", tmp_path / "mine.txt"
    rayfed.run(STUDY, out=out, page=False)
    mine.write_text("mine")
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(mine)
    url = out.as_uri()
    for call in (lambda: copies.bring(url, print), lambda: rayfed.resume(url)):
        with pytest.raises(ScenarioError, match=f"{name}: is a link, not followed"):
            call()
    with pytest.raises(RayfedError, match="is a link"):
        Objects(url).write(name, b"theirs")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("local", ["out", "link"])
def test_a_folder_of_this_machine_may_itself_be_a_link(tmp_path, local):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    url = f"{(tmp_path / local).as_uri()}/study"
    rayfed.run(STUDY, out=url)
    assert rayfed.load(url).outcome == {RUN: "finished"}
    assert (tmp_path / "out" / "study" / RUN / "run.json").is_file()
