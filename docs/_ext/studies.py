"""The published studies: what their sources claim, and what is reproduced, from claims files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import md
import sources
from sphinx.application import Sphinx

Survey: TypeAlias = dict[str, Any]
"""What ``reproduced.json`` holds, or one study of it."""

_INTRO = """\
(studies)=
# Published studies

```sh
rayfed reproduce NAME     # one study, and the claims of its source
rayfed reproduce --all    # the short versions of all, with one table at the end
```

`--full` runs a study at the length of its source. Every claim has a state:

- **reproduced**: it holds;
- **undecided**: runs are in the claimed order, but the seeds do not separate them;
- **not reproduced**: it does not, with the measured value, which a test compares as well, and the
  reason;
- **never run**: most claims about the full length.

Studies with networks need `pip install '.[torch]'`. A study without its data or a library is named
and left out.
"""
_MEASURED = """\
On {ended}, {ran} of {known} studies ran: of {claims} claims {holds} are reproduced,
{undecided} are undecided, {marked} are not reproduced, {failed} fail unexpectedly and {never} were
never run.

<details>
<summary>Versions, commits and machine</summary>

rayfed {rayfed} at commit `{commit:.8}`, Python {python}, NumPy {numpy}; {minutes:.0f} minutes of
runs and checks on {cpus} CPUs ({processor}). `docs/reproduced.json` has the digests of the data.
{since}
</details>
"""
_SINCE = """
Studies that ran again since, by `rayfed reproduce NAME --update docs/reproduced.json`: {studies}.
"""
_AGAINST = """\
## Evidence against a source

These claims are excluded by runs with the data, the rounds and the model of the source: no number
in the 95 % interval over the seeds is as claimed, or, where a run failed or never got there, the
claim holds with no seed. The intervals are not corrected for the number of claims. An unnoticed
difference can still be the reason; the page of each study lists the known ones.
"""


def page(
    name: str, claims: sources.Claims, study: sources.Study, surveyed: Survey | None = None
) -> str:
    """Return the page of one study, with what was measured when all studies ran last."""
    counts = _counts(claims, surveyed)
    scenario = f"```{{literalinclude}} ../../../scenarios/{name}.yaml\n:language: yaml\n```"
    parts = [
        f"(study-{name})=\n# {name}",
        md.escaped(study.description),
        f"Source: {md.escaped(claims.source)}",
        f"```sh\nrayfed reproduce {name}\n```",
        f"## Claims\n\n{_states(counts)}.",
        _table(claims, surveyed),
        "## Parts",
        md.table(
            ("part", "length", "content"),
            [(f"`{k}`", p.only or "both", md.escaped(p.about)) for k, p in claims.parts.items()],
        ),
        f"## Scenario\n\n{scenario}",
    ]
    return "\n\n".join(parts) + "\n"


_STATES = {
    "holds": "reproduced",
    "undecided": "undecided",
    "not reproduced": "not reproduced",
    "fails": "fails",
    "not checked": "not checked",
    "not run": "never run",
}
"""Words of the pages for the states of a survey, in the order of the tables."""


def _table(claims: sources.Claims, surveyed: Survey | None) -> str:
    """Return the claims, those of one state together, the state first."""
    measured = _measured(surveyed)
    order, notes = list(_STATES), dict[str, int]()
    rows = sorted(
        ((claim, measured.get(claim.says) or {"status": "not run"}) for claim in claims.claims),
        key=lambda row: order.index(row[1]["status"]),
    )
    cells = [
        (
            f"**{_STATES[told['status']]}**" + (f", {told['over']}" if told.get("over") else ""),
            md.escaped(claim.says),
            _place(claims, claim),
            _result(claim, told, notes),
        )
        for claim, told in rows
    ]
    table = md.table(("state", "claim", "where", "measured"), cells)
    listed = [f"[{number}] {md.escaped(text)}" for text, number in notes.items()]
    return "\n\n".join(
        ["In place of what the source has: " + "; ".join(listed) + ".", table] if notes else [table]
    )


def _measured(surveyed: Survey | None) -> dict[str, Survey]:
    return {claim["says"]: claim for claim in (surveyed or {}).get("claims", ())}


def _result(claim: Any, told: Survey, notes: dict[str, int]) -> str:
    """Return the measured values of a claim, the reason, and the numbers of notes.

    Parameters
    ----------
    notes : dict
        Numbers of the substitutes that values rest on, to which new ones are added.
    """
    reason = told.get("remark") if "measured" in told else claim.reason()
    texts = [md.escaped(text) for text in (told.get("measured"), reason) if text]
    numbers = [notes.setdefault(text, len(notes) + 1) for text in told.get("rests_on", ())]
    return "; ".join(texts) + "".join(f" [{number}]" for number in numbers)


def _place(claims: sources.Claims, claim: Any) -> str:
    """Return where the source has a claim, and the part and the length that it is about."""
    part = claims.part_of(claim)
    length = claim.only or claims.parts[part].only
    return f"{md.escaped(claim.where)}; part `{part}`" + (f", {length}" if length else "")


def _index(found: dict[str, sources.Claims], surveyed: Survey) -> str:
    studies = {each["study"]: each for each in surveyed.get("studies", ())}
    counts = {name: _counts(claims, studies.get(name)) for name, claims in found.items()}
    rows = [
        (_states(counts[name]), f"{{ref}}`{name} <study-{name}>`", md.escaped(claims.source))
        for name, claims in found.items()
    ]
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    table = md.table(("claims", "study", "source"), rows)
    toc = "```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(found) + "\n```\n"
    against = _against(found, studies)
    return "\n".join([_INTRO, _told(surveyed, total, len(found)), table, "", against, toc])


def _states(counts: Sequence[int]) -> str:
    """Return the numbers of claims by state, those of none left out.

    Examples
    --------
    >>> _states((7, 0, 0, 0, 2, 30))
    '7 reproduced, 2 never run'
    """
    words = ("reproduced", "undecided", "not reproduced", "unexpected", "never run")
    return ", ".join(f"{n} {word}" for n, word in zip(counts[:5], words, strict=True) if n)


def _against(found: dict[str, sources.Claims], studies: dict[str, Survey]) -> str:
    """Return the claims of others that the seeds exclude, and nothing about the runs excuses."""
    rows = [
        (f"{{ref}}`{name} <study-{name}>`", *map(md.escaped, (told["says"], told["measured"])))
        for name in found
        for told in studies.get(name, {}).get("claims", ())
        if told["status"] == "not reproduced" and told["excluded"] and not told["rests_on"]
        if not found[name].own
    ]
    table = md.table(("study", "the source says", "measured"), rows)
    return f"{_AGAINST}\n{table}\n" if rows else ""


def _told(surveyed: Survey, total: list[int], known: int) -> str:
    """Return when, where and how fast all studies ran last; empty if they never did."""
    if not surveyed:
        return ""
    holds, undecided, marked, failed, never, seconds = total
    since = ", ".join(
        f"`{each['study']}` on {each['ended']} at `{each['commit']:.8}`"
        for each in surveyed["studies"] if "ended" in each
    )  # fmt: skip
    return _MEASURED.format(
        holds=holds, undecided=undecided, marked=marked, failed=failed, never=never,
        claims=sum(total[:5]),
        minutes=seconds / 60, ran=len(surveyed["studies"]), known=known,
        since=_SINCE.format(studies=since) if since else "", **surveyed["versions"],
        **{key: surveyed[key] for key in ("ended", "cpus", "processor", "commit")},
    )  # fmt: skip


def _counts(claims: sources.Claims, surveyed: Survey | None) -> tuple[int, ...]:
    """Return the numbers of claims held, undecided, marked, failed and not run, and the seconds."""
    measured = _measured(surveyed)
    states = [measured.get(claim.says, {"status": "not run"})["status"] for claim in claims.claims]
    *counts, never = (
        states.count(state) for state in ("holds", "undecided", "not reproduced", "not run")
    )
    seconds = round((surveyed or {}).get("seconds", 0))
    return *counts, len(states) - sum(counts) - never, never, seconds


def _generate(app: Sphinx) -> None:
    home, folder = sources.scenarios(), Path(app.srcdir)
    found = {
        path.name.removesuffix(sources.SUFFIX): sources.load_claims(path)
        for path in sorted(home.glob(f"*{sources.SUFFIX}"))
    }
    surveyed = sources.surveyed()
    studies = {each["study"]: each for each in surveyed.get("studies", ())}
    md.write(folder, "studies/index.md", _index(found, surveyed))
    for name, claims in found.items():
        study = sources.load(home / f"{name}.yaml")
        md.write(folder, f"studies/{name}.md", page(name, claims, study, studies.get(name)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
