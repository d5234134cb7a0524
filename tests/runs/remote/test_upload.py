"""Whatever is remote can be resumed, wherever the machine died."""

from contextlib import contextmanager
from unittest import mock

import pytest

from rayfed.runs.files import store
from tests.fakes.bucket import bucket
from tests.fakes.disk import Down
from tests.runs.remote.machine import Machine

RUN = "local-only-seed3"


def by_rounds(machine):
    """Run with an upload after each round."""
    uploader = machine.own()
    machine.driver().execute(report=lambda progress: uploader.upload())


def by_operations(machine, then=lambda: None):
    """Run with an upload after each operation on files, also in the middle of a replacement."""
    uploader = machine.own()
    with each_operation(lambda: (uploader.upload(), then())):
        machine.driver().execute()


@contextmanager
def each_operation(do):
    """Do something after each operation on files, but not after those that it does itself."""
    busy = False

    def watched(operation):
        def run(*args, **how):
            nonlocal busy
            operation(*args, **how)
            if not busy:
                busy = True
                try:
                    do()
                finally:
                    busy = False

        return run

    operations = {name: watched(getattr(store, name)) for name in ("publish", "move", "remove")}
    with mock.patch.multiple(store, **operations):
        yield


@pytest.mark.guard
@pytest.mark.parametrize(
    ("run", "step", "least"),
    [(by_rounds, 3, 30), pytest.param(by_operations, 1, 45, marks=pytest.mark.slow)],
)
def test_a_run_goes_on_from_what_an_interrupted_upload_left(
    run, step, least, plan, calm, tmp_path, assert_same
):
    rounds, number, ended = [], 0, False
    while not ended:
        number += step
        with bucket(down_at=number) as held:
            first = Machine(plan, tmp_path / f"first{number}")
            try:
                run(first)
                first.uploader.finish()
                ended = True
            except Down:
                pass
            held.down_at = None
            other = Machine(plan, tmp_path / f"second{number}")
            if not other.copy.results():
                continue
            driver = other.fetch()
            rounds.append(driver.records.checkpoints.round())
            assert driver.execute(resume=True) == "finished"
            assert driver.records.damage == [], number
            assert_same(calm, other.folder)
    assert number > least
    known = [-1 if round_ is None else round_ for round_ in rounds]
    assert known == sorted(known)
    assert {-1, 0, 1, 2, 3} <= set(known)


def test_what_is_uploaded_at_any_moment_of_a_run_is_sound(plan, tmp_path):
    newest = []

    def look():
        there = Machine(plan, tmp_path / f"there{len(newest)}")  # it changes its copy when it loads
        if RUN not in {name.partition("/")[0] for name in there.objects.list()}:
            return
        records = there.fetch().records
        found = records.load()
        assert records.damage == []
        newest.append(-1 if found is None else found[0].round)

    with bucket():
        by_operations(Machine(plan, tmp_path / "here"), then=look)
    assert len(newest) > 50
    assert newest == sorted(newest)
    assert newest[-1] == 3


def test_parts_that_were_to_be_deleted_do_not_come_back(plan, tmp_path):
    """The machine died after it had uploaded the record of an ended run."""
    with bucket():
        first = Machine(plan, tmp_path / "first")
        by_rounds(first)
        first.uploader.finish()
        left = f"{RUN}/rounds.parquet/part-000000000000.parquet"
        assert left not in first.objects.list()
        first.objects.put({left: next((first.folder / RUN).glob("rounds.parquet/part-*"))})
        other = Machine(plan, tmp_path / "second")
        other.fetch()
        assert len(list((other.folder / RUN).glob("rounds.parquet/part-*"))) == 1
        other.own().finish()
        assert left not in other.objects.list()
