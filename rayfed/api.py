"""The Python interface: run and resume scenarios, load their records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack
from warnings import warn

from rayfed.core.announced import run_folders
from rayfed.core.dotted import Overrides, pairs
from rayfed.core.errors import RayfedError, ScenarioError, many
from rayfed.core.files import reading
from rayfed.core.inside import check, check_tree, real
from rayfed.core.machine import cpus
from rayfed.core.own import Names, resolving
from rayfed.core.run_state import read_record
from rayfed.core.shipped import locate
from rayfed.core.threads import one_thread
from rayfed.report.writing import LOGGING
from rayfed.result import Result
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.files import stops
from rayfed.runs.files.afterwards import complete
from rayfed.runs.files.folder import create, locked, usable
from rayfed.runs.files.outcome import ended, explained_full_disk, outcomes, reason
from rayfed.runs.files.place import is_url, read_note, shown
from rayfed.runs.files.store import publish_text
from rayfed.runs.logger import logger
from rayfed.runs.modules import note_modules, noted_runs, of_study, sent_modules
from rayfed.runs.ray import imported as on_ray
from rayfed.runs.resume import adopt, check_all, check_same, extended
from rayfed.study import Study, StudyKeywords, apply_overrides, expand, slug
from rayfed.study import load as load_study
from rayfed.study.plan.controller import replayed
from rayfed.study.plan.plan import Plan, make
from rayfed.study.scenario.files import combined
from rayfed.study.scenario.files import read as read_file
from rayfed.study.scenario.names import run_folder

if TYPE_CHECKING:
    from rayfed.runs.backend import Backend

Scenario: TypeAlias = str | Path | Sequence[str | Path] | Mapping[str, Any] | Study
"""Name or path of a scenario file, several paths, the contents of a file, or a study."""

__all__ = [
    "Result",
    "begin",
    "check_unchanged",
    "cluster_cpus",
    "completed",
    "cpus",
    "default_folder",
    "execute",
    "extend",
    "load",
    "local_copy",
    "prepare",
    "read",
    "recorded",
    "resume",
    "run",
    "settled",
    "stop",
    "sweep",
    "unfinished",
    "uploaded",
    "warn_of_failures",
    "with_search",
    "without_search",
]


def load(folder: str | Path) -> Result:
    """Open a result folder: of a study that finished, failed or is still running.

    Parameters
    ----------
    folder : path or URL
        The folder that ``rayfed run`` or `run` wrote. Of a URL, such as ``"s3://bucket/study"``,
        changed files are copied into the user's cache folder, the result's ``folder``.

    Raises
    ------
    ScenarioError
        If the folder holds no runs, or the URL cannot be read.

    Examples
    --------
    >>> result = rayfed.load("results/quickstart")  # doctest: +SKIP
    >>> result.summary()  # doctest: +SKIP
    """
    place = local_copy(folder)
    return Result(place, outcomes(place))


def local_copy(folder: str | Path, watch: ProgressDisplay | None = None) -> Path:
    """Return the local folder of results: of a URL the copy that is brought here.

    Raises
    ------
    ScenarioError
        If nothing is at the URL, or it cannot be read.
    """
    if not is_url(folder):
        return real(Path(folder))
    from rayfed.runs.remote.copies import bring  # here: it imports fsspec

    return bring(str(folder), (watch or ProgressDisplay()).note)


def run(
    scenario: Scenario | None = None,
    *,
    out: str | Path | None = None,
    overrides: Overrides = (),
    address: str | None = None,
    watch: ProgressDisplay | bool = True,
    debug: bool = False,
    profile: bool = False,
    page: bool = True,
    log: Sequence[str] = (),
    **study: Unpack[StudyKeywords],
) -> Result:
    """Run a scenario and return its results.

    Parameters
    ----------
    scenario : path, list of paths, mapping or Study, optional
        A scenario file, the name of one that comes with rayfed (such as "quickstart"), or the
        contents of one; of several files, one study with the runs of all of them. In a mapping, an
        algorithm, a problem and so on may be a class or a value of the user's own.
    **study
        Keywords of `Study`, in place of a scenario.
    out : path or URL, optional
        Result folder; ``results/<name>`` if None. Earlier results there are moved aside. At a URL,
        such as ``"s3://bucket/study"``, nothing may be; what is recorded goes there meanwhile.
    overrides : mapping, or iterable of str
        Values for dotted keys, or texts ``dotted.key=value``.
    address : str, optional
        Address of an existing Ray cluster that this machine belongs to.
    watch : bool or ProgressDisplay
        Whether progress is shown: in a terminal and in a notebook, and nowhere else; or what shows
        it.
    debug : bool
        Whether everything runs in this process, whatever the executor, so that breakpoints in
        plug-ins are hit. It does not change a result.
    profile : bool
        Whether it is measured what the wall-clock time of rounds goes into: `Result.profile`. It
        does not change a result either.
    page : bool
        Whether ``report.html`` and ``summary.csv`` are written at the end, which takes seconds
        where there are many runs; `Result.report` writes them at any time.
    log : sequence of str
        Experiment trackers that get each row meanwhile: "mlflow", "tensorboard", "wandb".

    Raises
    ------
    ScenarioError
        If the scenario or its data are wrong; nothing is started then.
    RayfedError
        If the library of a tracker is missing.

    Warns
    -----
    RuntimeWarning
        If a run failed. The others continue, and all records are kept.

    Examples
    --------
    >>> result = rayfed.run(  # doctest: +SKIP
    ...     "quickstart", overrides={"rounds": 10, "executor.name": "serial"}
    ... )
    >>> result.rounds.groupby("label").loss.last()  # doctest: +SKIP
    >>> rayfed.run(  # doctest: +SKIP
    ...     problem=LogisticRegression(l2=1e-3),
    ...     data=Mushroom(test=0.2),
    ...     clients=Clients(count=10),
    ...     algorithms=(FedAvg(), FedExP()),
    ...     rounds=50,
    ... )
    """
    plan = prepare(without_search(read(scenario, overrides, address, **study)))
    display = _display(watch, len(plan.runs), debug)
    folder = begin(plan, out, watch=display, log=log)
    with _resumable(folder):
        result = execute(plan, folder, watch=display, debug=debug, profile=profile, page=page)
    return warn_of_failures(result)


def sweep(
    scenario: Scenario | None = None,
    *,
    out: str | Path | None = None,
    overrides: Overrides = (),
    address: str | None = None,
    watch: ProgressDisplay | bool = True,
    log: Sequence[str] = (),
    **study: Unpack[StudyKeywords],
) -> Result:
    """Try settings of a scenario with `search`, and return their results.

    Whole runs go to worker processes, one per CPU, unless the scenario sets another executor. The
    result does not depend on how many there are. `resume` continues it.

    Parameters
    ----------
    scenario, out, overrides, address, watch, log, **study
        As for `run`.

    Raises
    ------
    ScenarioError
        If the scenario or its data are wrong; nothing is started then.

    Examples
    --------
    >>> result = rayfed.sweep("tuning.yaml", overrides={"sweep.trials": 50})  # doctest: +SKIP
    """
    plan: Any = prepare(with_search(read(scenario, overrides, address, **study)))
    display = _display(watch, plan.search.runs)
    folder = begin(plan, out, watch=display, log=log)
    with _resumable(folder):
        return execute(plan, folder, watch=display)


def without_search(study: Study) -> Study:
    """Return a study without `search`.

    Raises
    ------
    ScenarioError
        If it has one.
    """
    if study.search:
        raise ScenarioError("search", "is for rayfed sweep; run that, or leave it out")
    return study


def with_search(study: Study) -> Study:
    """Return a study with `search`, executed by workers unless it sets another executor.

    Raises
    ------
    ScenarioError
        If it has none.
    """
    if not study.search:
        text = "is missing; give distributions, such as algorithms.*.local.lr: {log: [1e-4, 1]}"
        raise ScenarioError("search", text)
    if study.executor.name != "auto":
        return study
    return study.model_copy(
        update={"executor": study.executor.model_copy(update={"name": "workers"})}
    )


def begin(
    plan: Plan,
    out: str | Path | None = None,
    *,
    watch: ProgressDisplay | None = None,
    log: Sequence[str] = (),
) -> Path:
    """Make the result folder of a plan, with its scenario, and return its path, which is local.

    Raises
    ------
    ScenarioError
        If nothing uses the topology, the folder cannot be written or holds something else, its disk
        is too small, or a tracker to log to is unknown.
    RayfedError
        If the library of a tracker is missing.
    """
    plan.check_used()
    if log:
        from rayfed.report.live import write_note  # here: it imports pandas
        from rayfed.report.trackers import check_installed

        for name in log:
            check_installed(name)
    note = (watch or ProgressDisplay()).note
    if out is not None and is_url(out):
        from rayfed.runs.remote.copies import begin as begin_remote  # here: it imports fsspec

        folder = begin_remote(str(out))
    else:
        folder = real(Path(out)) if out is not None else default_folder(plan.study)
    plan.cost(cpus()).check_disk(folder)
    create(folder, note)
    try:
        runs = [] if plan.study.search else [run.folder for run in plan.runs]
        note_modules(folder, plan.study.to_dict(), runs)
        publish_text(folder / "scenario.yaml", plan.study.to_yaml(), durable=True)
        if log:
            write_note(folder, {name: {} for name in log})
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{folder}: cannot be written ({why})") from error
    return folder


def check_begun(plan: Plan, folder: Path) -> None:
    """Refuse a folder that another process began at the same moment, when nobody held its lock.

    Raises
    ------
    ScenarioError
        If its scenario is not that of the plan.
    """
    with usable(folder):
        found = _scenario_of(folder).read_text(encoding="utf-8")
    if found != plan.study.to_yaml():
        text = "another study was begun here at the same moment; choose another folder"
        raise ScenarioError(shown(folder), text)


def default_folder(study: Study) -> Path:
    """Return the result folder of a study if none is given."""
    return Path("results") / slug(study.name)


def read(
    scenario: Scenario | None,
    overrides: Overrides = (),
    address: str | None = None,
    **study: Unpack[StudyKeywords],
) -> Study:
    """Return the study of a scenario, or of keywords, with overrides.

    Modules that a file names are looked for in its folder, on Python's path and in the current
    folder; see `rayfed.core.own`.

    Raises
    ------
    ScenarioError
        If the scenario is not found or is wrong, or keywords are given as well.
    """
    if scenario is None:
        scenario = Study(**study)
    elif study:
        text = "is given as well as a scenario; change scenarios by overrides={...}"
        raise ScenarioError(next(iter(study)), text)
    if isinstance(scenario, Study):
        scenario = scenario.given()
    overrides = [*pairs(overrides), *_cluster(address)]
    if isinstance(scenario, Mapping):
        return Study.parse(apply_overrides(scenario, overrides))
    paths = [locate(one) for one in ([scenario] if isinstance(scenario, str | Path) else scenario)]
    studies = [_read_file(path, overrides) for path in paths]
    return studies[0] if len(studies) == 1 else combined(paths, studies)


def _cluster(address: str | None) -> list[tuple[str, Any]]:
    """Return the overrides that place clients on a cluster, whatever executor is named."""
    if address is None:
        return []
    if address == "local":  # as Ray calls it; a resumed study may have had a cluster
        return [("executor.address", None)]
    return [("executor.name", "ray"), ("executor.address", address)]


def _read_file(path: Path, overrides: Overrides, *, recorded: bool = False) -> Study:
    with reading(path, "a scenario file"):
        scenario_folder = str(path.resolve().parent)
    with resolving(Names(scenario_folder=scenario_folder)):
        return load_study(path, overrides, recorded=recorded)


def resume(
    folder: str | Path,
    *,
    failed: bool = False,
    accept_changes: bool = False,
    address: str | None = None,
    trust: bool = False,
    log: Sequence[str] = (),
    watch: ProgressDisplay | bool = True,
    debug: bool = False,
    page: bool = True,
) -> Result:
    """Continue the runs of a result folder that have not ended, from their last checkpoints.

    What decides their results must be as it was when they began: the scenario in the folder, the
    data and the user's modules. More rounds, looser rules under ``stop``, and more seeds or other
    new runs are no change: the study is extended, to what it would be had it asked for them at
    once.

    Parameters
    ----------
    folder : path or URL
        The result folder.
    failed : bool
        Whether runs that failed are tried again, too: after a bug in a plug-in was mended. Then
        modules may have changed.
    accept_changes : bool
        Whether to continue despite changes, which are noted in the ``run.json`` of each run under
        ``changes``, and among its warnings.
    address : str, optional
        Of the Ray cluster to use, "local" for Ray on this machine; that of before if None.
    trust : bool
        Whether modules that the scenario names are imported although the folder was not made here
        by this user.
    log : sequence of str
        As in `run`; needed for the trackers of a folder that was not made here by this user.
    watch, debug, page
        As in `run`.

    Raises
    ------
    ScenarioError
        If the folder holds no scenario, or another process is running it; if something has changed
        that is not accepted, a module would be imported that is not trusted, or rows would be sent
        to trackers that are not given.

    Warns
    -----
    RuntimeWarning
        If a run failed, or if a version began it that noted no digests.

    Examples
    --------
    >>> result = rayfed.resume("results/quickstart")  # doctest: +SKIP
    """
    folder = local_copy(folder, None if isinstance(watch, bool) else watch)
    plan: Any = recorded(folder, address, trust)
    for line in check_unchanged(
        plan, folder, failed=failed, accept_changes=accept_changes, log=log
    ):
        warn(line, RuntimeWarning, stacklevel=2)
    if plan.study.search:
        total = plan.search.runs
    else:
        total = len(plan.runs) - len(settled(plan, folder, failed=failed))
    display = _display(watch, total, debug)
    with _resumable(folder):
        result = execute(
            plan, folder, resume=True, failed=failed, accept_changes=accept_changes, log=log,
            watch=display, debug=debug, page=page,
        )  # fmt: skip
    return result if plan.study.search else warn_of_failures(result)


def stop(folder: str | Path, runs: Sequence[str] = ()) -> list[str]:
    """Ask a study that another process runs to stop, and return the runs that will.

    They write a checkpoint after their current round and end; `resume` continues them to bitwise
    identical results. The others continue.

    Parameters
    ----------
    folder : path
        The result folder.
    runs : sequence of str
        Run folders such as ``"fedavg-seed0"``; all if none are given, and none begins then.

    Raises
    ------
    ScenarioError
        If the study is not running, a run is unknown or has ended, or the study is a sweep.

    Examples
    --------
    >>> rayfed.stop("results/quickstart", ["FedAvg-seed0"])  # doctest: +SKIP
    """
    return stops.ask(Path(folder), runs)


def extend(
    folder: str | Path,
    *,
    rounds: int | None = None,
    seeds: Sequence[int] = (),
    overrides: Overrides = (),
    trust: bool = False,
    log: Sequence[str] = (),
) -> Plan:
    """Extend a study, and return its plan; `resume` then continues it.

    What it records is, byte for byte, what it would be had it asked for all of it at once.

    Parameters
    ----------
    folder : path or str
        The result folder of a study that does not run now, or its URL.
    rounds : int, optional
        Its rounds from now on, at least as many as its runs have.
    seeds : sequence of int
        Additional seeds.
    overrides : mapping, or iterable of str
        Further values for dotted keys, of new algorithms or of a grid that has grown.
    trust, log
        As in `resume`, to which they are given, too.

    Raises
    ------
    ScenarioError
        If the folder is in use, or the recorded runs would not belong to the extended study.

    Examples
    --------
    >>> rayfed.extend("results/quickstart", rounds=200, seeds=[3, 4])  # doctest: +SKIP
    >>> rayfed.resume("results/quickstart")  # doctest: +SKIP
    """
    place = real(local_copy(folder))
    _scenario_of(place)
    asked: list[tuple[str, Any]] = [*pairs(overrides)]
    if rounds is not None:
        asked.append(("rounds", rounds))
    if not asked and not seeds:
        raise ScenarioError("", "nothing is asked for; give rounds, seeds or keys of the scenario")
    with locked(place), uploaded(place, ProgressDisplay()):
        more = recorded(place, trust=trust).study
        if more.search:
            raise ScenarioError(shown(place), "is a sweep; sweep anew with more trials")
        if seeds:
            new = [seed for seed in seeds if seed not in more.seeds]
            asked.append(("seeds", [*more.seeds, *new]))
        with of_study(place, trust):
            plan = prepare(_read_file(_scenario_of(place), asked, recorded=True), place)
        with usable(place):
            check_unchanged(plan, place, log=log)
            if not trust:  # of modules that are trusted once nothing is noted
                note_modules(place, plan.study.to_dict(), [run.folder for run in plan.runs])
            publish_text(place / "scenario.yaml", plan.study.to_yaml(), durable=True)
            stops.note(place, "extend", **dict(asked))
    return plan


def warn_of_failures(result: Result) -> Result:
    """Warn about failed runs."""
    failed = [name for name, status in result.outcome.items() if status == "failed"]
    if failed:
        why = f"{failed[0]}: {reason(result.folder / failed[0])}"
        text = f"{len(failed)} of {many(len(result.outcome), 'run')} failed, the first {why}"
        warn(text, RuntimeWarning, stacklevel=3)
    return result


def _display(
    watch: ProgressDisplay | bool | None, total: int, debug: bool = False
) -> ProgressDisplay:
    """Return the progress display of calls from Python, for a number of runs."""
    if watch is not None and not isinstance(watch, bool):
        return watch
    visible = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not (watch and visible) or debug:  # bars would hide the prompt of a debugger
        return ProgressDisplay()
    from rayfed.runs.progress import display  # here: it imports rich

    return display(total)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Add the call that resumes to the traceback of a Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        again = f"rayfed.resume({shown(folder)!r})"
        stopped.add_note(f"interrupted; the records are kept, resume with: {again}")
        raise


def recorded(folder: Path, address: str | None = None, trust: bool = False) -> Plan:
    """Return the plan of a result folder.

    Parameters
    ----------
    folder : Path
        The result folder.
    address, trust
        As in `resume`.

    Raises
    ------
    ScenarioError
        If the folder holds no scenario, or it names modules and was not made here by this user.
    """
    with of_study(folder, trust):
        study = _read_file(_scenario_of(folder), _cluster(address), recorded=True)
        return prepare(study, folder)


def _scenario_of(folder: Path) -> Path:
    """Return the scenario file of a result folder, which must exist and be no link."""
    path = folder / "scenario.yaml"
    if not path.exists():
        raise ScenarioError(shown(folder), "is no result folder; it has no scenario.yaml")
    with usable(folder):
        check(path)
    return path


def check_unchanged(
    plan: Plan,
    folder: Path,
    *,
    failed: bool = False,
    accept_changes: bool = False,
    log: Sequence[str] = (),
) -> list[str]:
    """Return the warnings before a result folder is resumed.

    Parameters
    ----------
    plan : Plan
        What `recorded` returned.
    folder : Path
        The result folder.
    failed, accept_changes, log
        As in `resume`.

    Raises
    ------
    ScenarioError
        If the plan differs from the recorded study, failed trials of a sweep would be resumed, or
        rows would be sent to trackers that are not given.
    """
    if failed and plan.study.search:
        text = "a failed trial counts as the worst, and later ones were chosen by that"
        raise ScenarioError("--failed", f"{text}; mend the reason and sweep anew")
    with usable(folder):
        for run in {path.name for path in run_folders(folder)} | {run.folder for run in plan.runs}:
            check_tree(folder / run)
    if _is_logged(folder, log):
        from rayfed.report.live import trackers_of  # here: it imports pandas

        trackers_of(folder, log)
    check_all(folder, plan.runs)
    return check_same(folder, plan.runs, accept=accept_changes, mended=failed)


def settled(plan: Plan, folder: Path, *, failed: bool = False) -> dict[str, str]:
    """Return the outcome of the runs of a plan that have ended and will not be extended."""
    outcome = ended(folder, [run.folder for run in plan.runs], failed=not failed)
    prolonged = [run.folder for run in plan.runs if extended(run, read_record(folder / run.folder))]
    return {name: status for name, status in outcome.items() if name not in prolonged}


def unfinished(folder: Path) -> list[str]:
    """Return the run folders of a result folder that have not ended, those not begun included.

    Of a sweep they are those that have begun: later trials are not chosen yet. No module of the
    user's is imported.

    Raises
    ------
    ScenarioError
        If its scenario cannot be read.
    """
    scenario = _scenario_of(folder)
    names = noted_runs(folder, read_file(scenario)[0])
    if names is None:
        names = _runs_of(folder, _read_file(scenario, (), recorded=True))
    done = ended(folder, names)
    return [name for name in names if name not in done]


def _runs_of(folder: Path, study: Study) -> list[str]:
    """Return the run folders of a study, of a sweep those that have begun."""
    if study.search:
        return [path.name for path in run_folders(folder)]
    return [
        run_folder(label, setting, seed)
        for setting, made in expand(study)
        for seed in made.seeds
        for label in made.labels
    ]


def prepare(study: Study, folder: Path | None = None) -> Plan:
    """Load the data and check everything; nothing is started or written.

    Parameters
    ----------
    study : Study
    folder : Path, optional
        The result folder of a resumed sweep: its trials are not proposed again.

    Raises
    ------
    ScenarioError
        If the scenario or its data are wrong, or the memory does not suffice.
    """
    begun = time.monotonic()
    with one_thread():
        if study.search:
            from rayfed.trials import prepare as prepare_sweep  # here: it imports pandas

            plan: Plan = prepare_sweep(study, folder)
        else:
            plan = make(study, expand(study))
    plan.cost(cpus()).check()
    taken = time.monotonic() - begun
    logger.info("%s: data loaded, %d runs planned in %.2f s", study.name, len(plan.runs), taken)
    return plan


def execute(
    plan: Plan,
    folder: Path,
    *,
    resume: bool = False,
    failed: bool = False,
    accept_changes: bool = False,
    log: Sequence[str] = (),
    watch: ProgressDisplay,
    debug: bool = False,
    profile: bool = False,
    page: bool = True,
) -> Result:
    """Run the runs of a plan that have not ended, then write the page.

    Parameters
    ----------
    plan : Plan
        What `prepare` returned.
    folder : Path
        What `begin` returned, or the folder of a study to resume.
    resume : bool
        Whether runs that ended stay as they are, and others continue from their checkpoints.
    failed : bool
        Whether runs that failed continue, too.
    accept_changes, log
        As in `resume`.
    watch : ProgressDisplay
        Shows the progress.
    debug, profile : bool
        As in `run`.
    page : bool
        As in `run`; sweeps always write it.

    Raises
    ------
    RunFailed
        If the disk is full; the records are kept, and `resume` continues from there.
    """
    if not debug:  # all is in this process then; no result depends on where clients live
        plan = plan.placed(cpus())
    with locked(folder, watch.note), uploaded(folder, watch), logged(folder, watch, log):
        if not resume:
            check_begun(plan, folder)
        stops.clear(folder)
        if resume:
            check_unchanged(plan, folder, failed=failed, accept_changes=accept_changes, log=log)
            with usable(folder):
                runs = adopt(folder, plan.runs, failed=failed)
            plan = replace(plan, runs=runs if plan.study.search else replayed(plan.study, runs))
        if plan.study.search:
            from rayfed.trials import SweepDriver, SweepPlan  # here: it imports pandas

            assert isinstance(plan, SweepPlan)
            with _started(plan, folder, watch, debug) as backend:
                driver = SweepDriver(plan, folder, backend.execute, resume, watch, accept_changes)
                outcome = driver.conduct()
        else:
            outcome = settled(plan, folder, failed=failed) if resume else {}
            waiting = [run for run in plan.runs if run.folder not in outcome]
            if profile:
                waiting = [replace(run, profiled=True) for run in waiting]
            with _started(plan, folder, watch, debug) if waiting else nullcontext() as backend:
                if backend is not None:
                    outcome |= backend.execute(waiting, plan.tables, resume, watch.runs)
                completed(plan, folder, outcome)
        result = Result(folder, outcome)
        with explained_full_disk(folder, outcome):
            if page or plan.study.search:
                with watch:
                    result.report(progress=watch.page)
    return result


def completed(plan: Plan, folder: Path, outcome: Mapping[str, str]) -> None:
    """Write the outputs computed from the final models of the finished runs."""
    with one_thread():  # pictures of models have the same numbers on every machine
        for run in plan.runs:
            if outcome.get(run.folder) == "finished":
                complete(run, plan.tables, folder / run.folder)


def uploaded(folder: Path, watch: ProgressDisplay) -> AbstractContextManager[None]:
    """Upload the records, if the folder is the copy of a URL."""
    if not read_note(folder):
        return nullcontext()
    from rayfed.runs.remote.copies import owned  # here: it imports fsspec

    return owned(folder, watch.note)


def logged(
    folder: Path, watch: ProgressDisplay, log: Sequence[str]
) -> AbstractContextManager[None]:
    """Send rows to experiment trackers, if the study has any."""
    if not _is_logged(folder, log):
        return nullcontext()
    from rayfed.report.live import logged as logged_live  # here: it imports pandas

    return logged_live(folder, watch.note, log)


def _is_logged(folder: Path, log: Sequence[str]) -> bool:
    return bool(log) or (folder / LOGGING).exists()


@contextmanager
def _started(plan: Plan, folder: Path, watch: ProgressDisplay, debug: bool) -> Iterator[Backend]:
    """Start the backend that executes the runs of a plan."""
    with watch:
        backend = _backend(plan, folder, debug, watch)
        try:
            backend.wait(watch.actors)
            listens = backend.listens()
            if listens is not None:
                watch.note(listens)
            yield backend
        finally:
            backend.close()


def _backend(plan: Plan, folder: Path, debug: bool, watch: ProgressDisplay) -> Backend:
    """Return the backend of the scenario's executor; Ray is imported only here."""
    executor = plan.executor
    if executor.name == "serial" or debug:
        from rayfed.executors.serial import SerialExecutor
        from rayfed.runs.serial import SerialStudy

        made = partial(SerialExecutor, memory_gb=executor.memory_gb, debug=debug)
        return SerialStudy(folder, made)
    if executor.name == "workers":
        from rayfed.runs.workers import WorkersStudy

        workers = cpus() if executor.workers == "auto" else executor.workers
        return WorkersStudy(folder, workers, executor.memory_gb)
    backend: Backend = on_ray(executor.address).RayStudy(
        plan.clients, executor.clients_per_actor, executor.address, folder,
        sent_modules(plan.runs), executor.memory_gb, executor.gpus, len(plan.runs), watch.note,
        executor.hosting_driver,
    )  # fmt: skip
    return backend


def cluster_cpus(address: str) -> list[int]:
    """Return the CPUs of each node of a Ray cluster that this machine belongs to; it is left again.

    Raises
    ------
    RayfedError
        If Ray cannot be joined.
    """
    found: list[int] = on_ray(address).cluster_cpus(address)
    return found
