"""What models of the clients' own give them: at the end client by client, and over the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayfed.report.page import markup


def section(data: Mapping[str, Any]) -> str:
    """Return what the clients' own models are worth, empty where no run has any.

    Parameters
    ----------
    data : mapping
        What `payload.payload` returned.
    """
    if not data["own"]:
        return ""
    first = data["own"][data["view"]["own"]]
    names = list(dict.fromkeys(one["name"] for one in data["own"]))
    seeds = list(dict.fromkeys(str(one["seed"]) for one in data["own"]))
    controls = ""
    if len(names) > 1:
        pairs = [(name, name) for name in names]
        controls += markup.choice("ownname", "algorithm", pairs, first["name"])
    if len(seeds) > 1:
        pairs = [(seed, seed) for seed in seeds]
        controls += markup.choice("ownseed", "seed", pairs, str(first["seed"]))
    place = f"var(--a{first['place']})"
    key = [
        (f'class="dot own" style="background:{place};border-color:{place}"', "its own model"),
        (f'class="dot own" id="own-shared" style="border-color:{place}"', "the shared model"),
    ]
    if any(one["note"] for one in data["own"]):
        key.append(('class="dot never"', "of a client that was never asked"))
    above = f'<div class="controls">{controls}</div>{markup.statuses(key) if first["dots"] else ""}'
    note = '<p class="note" id="own-note"></p>'
    titles = first["titles"]
    figures = markup.figure("own", titles["own"], first["how"], above, first["own"], note)
    how = "The stronger the colour, the higher the value of the client's own model in that round."
    figures += markup.figure("own-rounds", titles["own-rounds"], how, "", first["own-rounds"])
    return markup.section("What do models of their own give the clients?", figures)
