"""The published studies: what their sources claim, and what is reproduced, from claims files."""

from __future__ import annotations

from pathlib import Path

import md
import sources
from sphinx.application import Sphinx

_INTRO = """\
(studies)=
# Published studies

`rayfed reproduce NAME` runs a study and checks what its source claims; `--full` runs it at the
length of the source. A claim that does not hold here stays in the list, with the reason.
"""


def page(name: str, claims: sources.Claims, study: sources.Study) -> str:
    """Return the page of one study."""
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
    held = [claim for claim in claims.claims if claim.because is None]
    failed = [(claim, claim.because) for claim in claims.claims if claim.because is not None]
    if held:
        shown = [
            (f"`{claims.part_of(c)}`", c.only or "both", md.escaped(c.where), md.escaped(c.says))
            for c in held
        ]
        parts += ["## Reproduced", md.table(("part", "length", "where", "claim"), shown)]
    if failed:
        rows = [
            (f"`{claims.part_of(c)}`", md.escaped(c.where), md.escaped(c.says), md.escaped(why))
            for c, why in failed
        ]
        parts += ["## Not reproduced", md.table(("part", "where", "claim", "reason"), rows)]
    scenario = f"```{{literalinclude}} ../../../scenarios/{name}.yaml\n:language: yaml\n```"
    return "\n\n".join([*parts, "## Scenario", scenario]) + "\n"


def _index(found: dict[str, sources.Claims]) -> str:
    rows = [
        (
            f"{{ref}}`{name} <study-{name}>`",
            str(sum(c.because is None for c in claims.claims)),
            str(sum(c.because is not None for c in claims.claims)),
            md.escaped(claims.source),
        )
        for name, claims in found.items()
    ]
    table = md.table(("study", "reproduced", "not", "source"), rows)
    toc = "```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(found) + "\n```\n"
    return f"{_INTRO}\n{table}\n\n{toc}"


def _generate(app: Sphinx) -> None:
    home, folder = sources.scenarios(), Path(app.srcdir)
    found = {
        path.name.removesuffix(sources.SUFFIX): sources.load_claims(path)
        for path in sorted(home.glob(f"*{sources.SUFFIX}"))
    }
    md.write(folder, "studies/index.md", _index(found))
    for name, claims in found.items():
        md.write(
            folder, f"studies/{name}.md", page(name, claims, sources.load(home / f"{name}.yaml"))
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
