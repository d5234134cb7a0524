"""The published studies: what their sources claim, and what is reproduced, from claims files."""

from __future__ import annotations

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

`rayfed reproduce NAME` runs a study and checks what its source claims; `--full` runs it at the
length of the source. Every claim is in one of three states: it holds; it does not, with the reason
and with what was measured, which may not drift either; or nobody has run it, which is so for most
claims about the full length. A heading says over how many seeds numbers are means, and what runs
have in place of what the source has: fewer rounds, a part of the data, a smaller network. Where all
seeds give the same number nothing that is drawn matters to it.

`rayfed reproduce --all` runs the short versions of all studies and ends with one table. Those with
networks need `pip install '.[torch]'`; what is not at hand, data or a library, is named and
left out.
"""
_MEASURED = """\
The table is what it wrote on {ended} (`docs/reproduced.json`, which has digests of the data, too),
when it ran {ran} of {known} studies: of {claims} claims {holds} hold, {marked} do not, {failed}
fail unexpectedly and {never} were never run. Runs and checks took {minutes:.0f} minutes, added up,
on {cpus} CPUs ({processor}), which they share, with rayfed {rayfed} at commit `{commit}`, Python
{python} and NumPy {numpy}. What a study without seconds claims was run with earlier versions, which
kept no such record.
"""
_SINCE = """\
Run by themselves since (`rayfed reproduce NAME --update docs/reproduced.json`): {studies}.
"""
_AGAINST = """\
## Where the evidence is against a source

These claims do not hold over three seeds or more, or with any seed, in runs where nothing stands
in for what the source has, and no less data or fewer rounds. A difference that nobody noticed can
still be the reason; the page of each study says what differs.
"""
_NEVER = (
    "Nobody has run these: they are about runs of the source's length (`--full`), or of studies "
    "that have not been run since claims have three states."
)


def page(
    name: str, claims: sources.Claims, study: sources.Study, surveyed: Survey | None = None
) -> str:
    """Return the page of one study, with what was measured when all studies ran last."""
    parts = [
        f"(study-{name})=\n# {name}",
        md.escaped(study.description),
        f"Source: {md.escaped(claims.source)}",
        f"```console\n$ rayfed reproduce {name}\n```",
        "## Parts",
        md.table(
            ("part", "length", "what it is"),
            [(f"`{k}`", p.only or "both", md.escaped(p.about)) for k, p in claims.parts.items()],
        ),
    ]
    for heading, held in _grouped(claims, surveyed).items():
        parts += [f"## {md.escaped(heading)}", *([_NEVER] if heading == "Never run" else [])]
        parts.append(_table(claims, held))
    scenario = f"```{{literalinclude}} ../../../scenarios/{name}.yaml\n:language: yaml\n```"
    return "\n\n".join([*parts, "## Scenario", scenario]) + "\n"


_TITLES = {
    "holds": "Reproduced",
    "not reproduced": "Not reproduced",
    "fails": "Fails",
    "not checked": "Not checked",
}
_Told: TypeAlias = tuple[Any, Survey | None]
"""A claim, and what was measured of it."""


def _grouped(claims: sources.Claims, surveyed: Survey | None) -> dict[str, list[_Told]]:
    """Return the claims under headings that say what they rest on; those never run come last."""
    measured = {claim["says"]: claim for claim in (surveyed or {}).get("claims", ())}
    groups: dict[str, list[_Told]] = {}
    for state, title in _TITLES.items():
        for claim in claims.claims:
            told = measured.get(claim.says)
            if told is not None and told["status"] == state:
                seeds = told["over"].partition(", holds in")[0]
                on = "; ".join(filter(None, (seeds, *told["rests_on"])))
                groups.setdefault(f"{title}: {on}" if on else title, []).append((claim, told))
    never = [claim for claim in claims.claims if _never(measured.get(claim.says))]
    return groups | ({"Never run": [(claim, None) for claim in never]} if never else {})


def _never(told: Survey | None) -> bool:
    return told is None or told["status"] == "not run"


def _table(claims: sources.Claims, held: list[_Told]) -> str:
    """Return the claims under one heading; columns that say nothing are left out."""
    heads = ("part", "length", "where", "claim", "measured", "over", "reason")
    rows = [
        (
            f"`{claims.part_of(claim)}`",
            claim.only or claims.parts[claims.part_of(claim)].only or "both",
            md.escaped(claim.where),
            md.escaped(claim.says),
            md.escaped(told["measured"]) if told else "",
            told["over"] if told else "",
            md.escaped(told["remark"]) if told else md.escaped(claim.reason() or ""),
        )
        for claim, told in held
    ]
    kept = [k for k in range(len(heads)) if any(row[k] for row in rows)]
    return md.table([heads[k] for k in kept], [tuple(row[k] for k in kept) for row in rows])


def _index(found: dict[str, sources.Claims], surveyed: Survey) -> str:
    studies = {each["study"]: each for each in surveyed.get("studies", ())}
    counts = {name: _counts(claims, studies.get(name)) for name, claims in found.items()}
    rows = [
        (f"{{ref}}`{name} <study-{name}>`", *map(str, counts[name]), md.escaped(claims.source))
        for name, claims in found.items()
    ]
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows.append(("all", *map(str, total), ""))
    table = md.table(("study", "held", "marked", "failed", "never run", "seconds", "source"), rows)
    toc = "```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(found) + "\n```\n"
    against = _against(found, studies)
    return "\n".join([_INTRO, _told(surveyed, total, len(found)), table, "", against, toc])


def _against(found: dict[str, sources.Claims], studies: dict[str, Survey]) -> str:
    """Return the claims that do not hold though nothing about the runs excuses it."""
    rows = [
        (f"{{ref}}`{name} <study-{name}>`", *map(md.escaped, (told["says"], told["measured"])))
        for name in found
        for told in studies.get(name, {}).get("claims", ())
        if told["status"] == "not reproduced" and not told["rests_on"] and _sure(told)
    ]
    table = md.table(("study", "the source says", "measured"), rows)
    return f"{_AGAINST}\n{table}\n" if rows else ""


def _sure(told: Survey) -> bool:
    return told["seeds"] >= 3 or "all alike" in told["over"]


def _told(surveyed: Survey, total: list[int], known: int) -> str:
    """Return when, where and how fast all studies ran last; empty if they never did."""
    if not surveyed:
        return ""
    holds, marked, failed, never, seconds = total
    since = ", ".join(
        f"`{each['study']}` on {each['ended']} at commit `{each['commit']}`"
        for each in surveyed["studies"] if "ended" in each
    )  # fmt: skip
    told = _MEASURED.format(
        holds=holds, marked=marked, failed=failed, never=never, claims=sum(total[:4]),
        minutes=seconds / 60, ran=len(surveyed["studies"]), known=known,
        **surveyed["versions"],
        **{key: surveyed[key] for key in ("ended", "cpus", "processor", "commit")},
    )  # fmt: skip
    return told + (f"\n{_SINCE.format(studies=since)}" if since else "")


def _counts(claims: sources.Claims, surveyed: Survey | None) -> tuple[int, ...]:
    """Return how many claims held, are marked, failed, were never run, and the seconds."""
    measured = {claim["says"]: claim["status"] for claim in (surveyed or {}).get("claims", ())}
    states = [measured.get(claim.says, "not run") for claim in claims.claims]
    counts = [states.count(state) for state in ("holds", "not reproduced", "not run")]
    seconds = round(surveyed["seconds"]) if surveyed else 0
    return counts[0], counts[1], len(states) - sum(counts), counts[2], seconds


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
