"""Published studies: runs of their parts and checks of the claims of the source.

A study is ``<name>.claims.yaml`` with its scenarios in the same folder (`rayfed.reproduce.claims`),
in ``scenarios/`` of the current folder or among the scenarios that come with rayfed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

from rayfed import api
from rayfed.core import shipped
from rayfed.core.announced import run_folders
from rayfed.core.columns import names
from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.run_state import read_record
from rayfed.engine.columns import CONTROL, PRIVATE
from rayfed.engine.loop import NOT_FINITE
from rayfed.engine.state import COUNTS
from rayfed.measures.evaluation import MANY, evaluated
from rayfed.report.read.results import Results, RunRecord
from rayfed.reproduce.claims import (
    CLOCKS,
    SUFFIX,
    Claim,
    Claims,
    Length,
    RecordedValue,
    Where,
    load_claims,
    runs_of,
)
from rayfed.reproduce.provenance import shortened
from rayfed.reproduce.verdicts import Verdict, chosen, judge, key, why_failed
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.files.store import publish_text
from rayfed.runs.modules import of_study
from rayfed.study import Study, expand, slug
from rayfed.study.plan.plan import Plan
from rayfed.study.scenario.invalid import Mistakes, together

RecordedRuns: TypeAlias = Mapping[str, Sequence[RunRecord]]
"""The runs of each part that ran."""
CLAIMS = "claims.json"
"""The file of verdicts, in the folder of a study and in those of its parts."""


@dataclass(frozen=True)
class Published:
    """A published study in one length, with a folder for its results.

    Parameters
    ----------
    path : Path
        Its ``<name>.claims.yaml``.
    every : Claims
        Parts and claims of both lengths.
    length : "short" or "full"
        The length of the runs: quick, or as in the source.
    out : Path, optional
        ``results/reproduce/<name>`` if None.
    """

    path: Path
    every: Claims
    length: Length = "short"
    out: Path | None = None

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.path.name.removesuffix(SUFFIX)

    @cached_property
    def claims(self) -> Claims:
        """The parts and claims of this length."""
        return self.every.of_length(self.length)

    @property
    def home(self) -> Path:
        """The folder of all its results."""
        return self.out or Path("results") / "reproduce" / slug(self.name)

    def folder(self, part: str) -> Path:
        """Return the result folder of a part."""
        return self.home / part

    @cached_property
    def studies(self) -> Mapping[str, Study]:
        """The study that each part runs; no data are loaded.

        Raises
        ------
        ScenarioError
            If the scenario of a part is wrong, with the part.
        """
        return {part: self._study(part) for part in self.claims.parts}

    def _study(self, name: str) -> Study:
        part = self.claims.parts[name]
        title = self.name if len(self.every.parts) == 1 else f"{self.name}: {name}"
        changes = {"name": title, "description": part.about, **part.set}
        changes |= part.full if self.length == "full" else {}
        scenario = self.path.with_name(part.scenario or f"{self.name}.yaml")
        try:
            study = api.read(scenario, changes)
            return study if part.algorithms is None else _only(study, part.algorithms)
        except ScenarioError as error:
            raise self.blamed(name, error) from None

    def rests_on(self, part: str) -> list[str]:
        """Return the differences of a part from the source; see `shortened`."""
        asked = self.claims.parts[part]
        words = [self.every.stands_in] if self.every.stands_in else []
        if self.length == "short" and asked.full and asked.only is None:
            long = replace(self, length="full").studies[part]
            words += shortened(asked.full, self.studies[part], long)
        return words

    def blamed(self, part: str, error: ScenarioError) -> ScenarioError:
        """Return an error with the part that it is in."""
        place = f"{self.path}: parts.{part}"
        if isinstance(error, Mistakes):
            return together(self.blamed(part, each) for each in error.errors)
        return type(error)(f"{place}: {error.place}", error.problem)

    def check(self) -> None:
        """Refuse claims about runs or columns that the parts do not have.

        Raises
        ------
        ScenarioError
            In one line, with the file and the place.
        """
        if not self.claims.parts:
            raise ScenarioError(str(self.path), f"has no part of {self.length} length")
        studies = self.studies
        expanded = cache(lambda part: dict(expand(studies[part])))
        for index, claim in enumerate(self.every.claims):
            read = runs_of(claim.check) if self.every.counts(claim, self.length) else []
            for place, where in read:
                try:
                    _check_where(where, expanded(self.every.part_of(claim, where)))
                except ScenarioError as error:
                    at = f"{self.path}: claims.{index}.check.{place}.{error.place}"
                    raise ScenarioError(at, error.problem) from None


def known() -> dict[str, Path]:
    """Return the claims files by study; those of the current folder take precedence."""
    return shipped.studies()


def find(name: str, length: Length = "short", out: Path | None = None) -> Published:
    """Return a study by its name, or by the path of its claims or its scenario.

    Raises
    ------
    ScenarioError
        If there is none, or something in its files is wrong.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.name.endswith(SUFFIX):
            path = path.with_name(f"{path.stem}{SUFFIX}")
    else:
        studies = known()
        if name not in studies:
            raise ScenarioError("", unknown("study", name, studies))
        path = studies[name]
    study = Published(path, load_claims(path), length, out)
    study.check()
    return study


def begin(study: Published, part: str, keep: bool = False) -> tuple[Plan, bool]:
    """Load the data of a part and make its result folder.

    Parameters
    ----------
    study : Published
        The study.
    part : str
        Name of one of its parts.
    keep : bool
        Keep the runs of the folder if it is of the same scenario.

    Returns
    -------
    Plan
        The plan of the part.
    bool
        Whether recorded runs of the same scenario are kept.

    Raises
    ------
    Missing
        If a data set is not available or a library is not installed.
    ScenarioError
        If anything else is wrong.
    """
    try:
        plan = api.prepare(study.studies[part])
    except ScenarioError as error:
        raise study.blamed(part, error) from None
    folder = study.folder(part)
    if keep and _same(plan.study, folder):
        return plan, True
    api.begin(plan, folder)
    return plan, False


def execute(
    study: Published, part: str, plan: Plan, resumed: bool, watch: ProgressDisplay
) -> api.Result:
    """Execute the runs of a part that have not ended."""
    return api.execute(plan, study.folder(part), resume=resumed, watch=watch)


@dataclass(frozen=True)
class Outcome:
    """The verdicts on a study.

    Parameters
    ----------
    study : Published
        The study.
    verdicts : tuple of Verdict
        One for each claim of the length.
    failed : mapping of str to str
        Reasons of failed runs, by "part: label setting seed"; without those that a claim expects.
    missing : mapping of str to str
        Reasons why parts were left out.
    data : mapping of str to mapping
        Fingerprints of the data of parts; see `rayfed.reproduce.provenance`.
    """

    study: Published
    verdicts: tuple[Verdict, ...]
    failed: Mapping[str, str]
    missing: Mapping[str, str]
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def holds(self, part: str | None = None) -> bool:
        """Return whether every claim has the expected status, of one part or all."""
        verdicts = [v for v in self.verdicts if part in (None, v.claim.part)]
        failed = [run for run in self.failed if part is None or run.startswith(f"{part}: ")]
        return not (failed or self.missing) and all(v.expected for v in verdicts)

    def as_plain(self, part: str | None = None) -> dict[str, Any]:
        """Return the outcome as plain values, with the claims of one part or all."""
        verdicts = [v for v in self.verdicts if part in (None, v.claim.part)]
        return {
            "study": self.study.name,
            "source": self.study.every.source,
            "length": self.study.length,
            "data": {name: data for name, data in self.data.items() if part in (None, name)},
            "missing": dict(self.missing),
            "failed": dict(self.failed),
            "claims": [verdict.as_plain() for verdict in verdicts],
        }


def conclude(
    study: Published,
    missing: Mapping[str, str],
    data: Mapping[str, Mapping[str, Any]] | None = None,
) -> Outcome:
    """Check the claims on the recorded parts, and write ``claims.json`` and the pages.

    Parameters
    ----------
    study : Published
        The study.
    missing : mapping of str to str
        Reasons why parts could not run.
    data : mapping of str to mapping, optional
        Fingerprints of the data of parts.
    """
    recorded = {
        part: Results.read(study.folder(part)).runs_found
        for part, scenario in study.studies.items()
        if part not in missing and _complete(scenario, study.folder(part))
    }
    verdicts = tuple(_verdict(study, claim, recorded, missing) for claim in study.every.claims)
    failed = _failures(study, verdicts, recorded)
    outcome = Outcome(study, verdicts, failed, missing, data or {})
    publish(study.home / CLAIMS, outcome.as_plain())
    for part in recorded:
        publish(study.folder(part) / CLAIMS, outcome.as_plain(part))
        api.Result(study.folder(part), {}).report()
    return outcome


def recorded_s(study: Published) -> float:
    """Return the wall-clock seconds of the recorded runs of a study, added up."""
    runs = [run for part in study.studies for run in run_folders(study.folder(part))]
    records = [read_record(run) for run in runs]
    return float(sum(record.get("wall_s") or 0.0 for record in records))


def _verdict(
    study: Published, claim: Claim, recorded: RecordedRuns, missing: Mapping[str, str]
) -> Verdict:
    claim = claim.model_copy(update={"part": study.every.part_of(claim)})
    if not study.every.counts(claim, study.length):
        other = "full" if study.length == "short" else "short"
        return Verdict(claim, None, f"is about runs of {other} length", ran=False)
    needs = sorted(study.claims.needs(claim))
    lacking = [part for part in needs if part not in recorded]
    if lacking:
        why = (missing.get(part, f"part {part} was not run") for part in lacking)
        return Verdict(claim, None, "; ".join(why))
    words = (word for part in needs for word in (*_notes(recorded[part]), *study.rests_on(part)))
    return replace(judge(study.claims, claim, recorded), rests_on=tuple(dict.fromkeys(words)))


def _notes(runs: Sequence[RunRecord]) -> list[str]:
    """Return the notes on the data of runs, such as that they are a subset."""
    return [str(run.info["data_note"]) for run in runs if run.info.get("data_note")]


def _diverging(verdict: Verdict) -> Iterable[Where]:
    """Return the runs that diverge as a claim, or the mark of one, says."""
    check, mark = verdict.claim.check, verdict.claim.measured
    if verdict.holds and check.diverges:
        return check.diverges
    if verdict.status == "not reproduced" and mark is not None and mark.equals == "diverges":
        return [where for _, where in runs_of(check)]
    return []


def _failures(
    study: Published, verdicts: Iterable[Verdict], recorded: RecordedRuns
) -> dict[str, str]:
    expected = {
        run.folder
        for verdict in verdicts
        for where in _diverging(verdict)
        for part in (study.claims.part_of(verdict.claim, where),)
        for run in chosen(recorded[part], where)
        if NOT_FINITE in (why_failed(run) or "")
    }
    return {
        f"{part}: {' '.join(str(word) for word in key(run) if word != '')}": why
        for part, runs in recorded.items()
        for run in runs
        if (why := why_failed(run)) is not None and run.folder not in expected
    }


def publish(path: Path, plain: Mapping[str, Any]) -> Path:
    """Write plain values as indented JSON; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    publish_text(path, json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
    return path


def _same(study: Study, folder: Path) -> bool:
    """Return whether a result folder is of the same scenario, whatever its description is.

    Settings that are newer than the recorded scenario have their defaults in it.
    """
    path = folder / "scenario.yaml"
    try:
        with of_study(folder):
            return path.is_file() and _settings(api.read(path)) == _settings(study)
    except ScenarioError:  # of a setting that no longer exists
        return False


def _settings(study: Study) -> str:
    return study.model_copy(update={"name": "", "description": ""}).to_yaml()


def _complete(study: Study, folder: Path) -> bool:
    """Return whether a result folder is of the same scenario and all of its runs ended."""
    if not _same(study, folder):
        return False
    runs = sum(len(setting.seeds) * len(setting.labels) for _, setting in expand(study))
    records = [read_record(run) for run in run_folders(folder)]
    return len(records) == runs and all(record["status"] != "running" for record in records)


def _only(study: Study, labels: Sequence[str]) -> Study:
    """Return a study with some of its algorithms."""
    for label in labels:
        if label not in study.labels:
            raise ScenarioError("algorithms", unknown("label", label, study.labels))
    pairs = zip(study.labels, study.algorithms, strict=True)
    return Study.parse(
        study.given() | {"algorithms": [value for label, value in pairs if label in labels]}
    )


def _check_where(where: Where, settings: Mapping[str, Study]) -> None:
    """Refuse a place that is not run or recorded; the error names the key."""
    name = where.setting if where.setting is not None or len(settings) > 1 else next(iter(settings))
    if name is None:
        raise ScenarioError("setting", f"is missing; give one of: {'; '.join(settings)}")
    if name not in settings:
        raise ScenarioError("setting", unknown("setting", name, settings))
    study = settings[name]
    if where.of is None and len(study.labels) > 1:
        raise ScenarioError("of", f"is missing; give one of: {', '.join(study.labels)}")
    if where.of is not None and where.of not in study.labels:
        raise ScenarioError("of", unknown("label", where.of, study.labels))
    if where.seed is not None and where.seed not in study.seeds:
        raise ScenarioError("seed", f"found {where.seed}; it runs {list(study.seeds)}")
    if isinstance(where, RecordedValue) and where.name:
        _check_value(where, study)


def _metered(study: Study) -> bool:
    held = (study.clients, *study.clients.groups)
    return any(getattr(each, "energy", None) is not None for each in held)


def _check_value(value: RecordedValue, study: Study) -> None:
    label = value.of or study.labels[0]
    index = study.labels.index(label)
    algorithm = study.algorithms[index]
    asked = study.evaluate
    availability = study.clients.availability
    many = MANY + 1  # the data, which are not loaded, may have so many classes
    measures = (*asked.asked.values(), *algorithm.measures)
    scored = (
        *evaluated(algorithm, classes=many, validation=study.validated, unseen=study.unseen),
        *(name for each in measures for name in names(each.columns_of(availability))),
        *study.own_metrics,
    )
    stops = study.stop.columns
    select = study.participation_of(index).select
    reported = (*stops, *names(select.diagnostics), *names(algorithm.diagnostics))
    private = study.privacy if algorithm.privacy == "study" else algorithm.privacy
    spent = names(PRIVATE) if private is not None else ()
    made = names(CONTROL) if algorithm.control else ()
    columns = ("round", "time_s", *COUNTS, *scored, *reported, *spent, *made)
    if value.name not in columns:
        key = next(k for k in ("column", *CLOCKS) if getattr(value, k) is not None)
        raise ScenarioError(key, unknown("column", value.name, columns))
    if value.name == "loss_gap" and not (asked.gap or study.stop.loss_gap):
        raise ScenarioError("column", "found loss_gap; set evaluate.gap: true")
    if value.energy_to is not None and not _metered(study):
        raise ScenarioError("energy_to", "no energy is recorded; set clients.energy")
    for at in value.rounds:
        if study.rounds is not None and at > study.rounds:
            raise ScenarioError("at", f"found {at}; it runs {study.rounds} rounds")
        if value.name in scored and at % asked.every and at != study.rounds:
            raise ScenarioError("at", f"found {at}; it is evaluated every {asked.every} rounds")
