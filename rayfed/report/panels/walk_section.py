"""Where the servers walked: a player of the walk, visits against the long run, and mixing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayfed.report.figures.walk import TRAIL
from rayfed.report.page import markup


def section(data: Mapping[str, Any]) -> str:
    """Return where servers walked, empty if none did; a run whose server did not is no choice here.

    Parameters
    ----------
    data : mapping
        What `payload.payload` returned.
    """
    if not data["walks"]:
        return ""
    first = data["walks"][0]
    runs = [(str(k), f"{one['name']}, seed {one['seed']}") for k, one in enumerate(data["walks"])]
    controls = '<div class="controls">'
    controls += markup.choice("walk", "run", runs, "0") if len(runs) > 1 else ""
    controls += (
        '</div><div class="controls player"><button type="button" id="walk-play">Play</button>'
        '<label for="walk-step">round</label><input type="range" id="walk-step" min="0"></div>'
        '<p class="note" id="walk-told"></p>'
    )
    key = [
        ('class="here"', "the client that the server visits"),
        (f'class="asked" id="walk-asked" style="border-color:var(--a{first["place"]})"', "asked"),
        ('class="path"', f"its way over the last {TRAIL} rounds"),
    ]
    how = "Lines join clients that are linked; the server moves along them from round to round."
    if any(one["apart"] for one in data["walks"]):
        key.append(('class="dot unasked"', "not asked so far"))
        how += (
            " The stronger a client's colour, the further its own model was from the server's when "
            "it was evaluated last."
        )
    note = '<p class="note" id="walk-note"></p>'
    above = controls + markup.statuses(key)
    titles = first["titles"]
    figures = [markup.figure("walk", titles["walk"], how, above, first["walk"], note)]
    how = (
        f"Bars are the visits; the dotted line is the walk's {markup.term('long-run law')}, "
        "where graphs change the mean of their laws."
    )
    note = '<p class="note" id="visits-note"></p>'
    figures.append(markup.figure("visits", titles["visits"], how, "", first["visits"], note))
    changing = next((one["eigenvalues"] for one in data["walks"] if one["eigenvalues"]), None)
    how = f"The {markup.term('second eigenvalue')} of the walk on the graph of each round."
    if changing:
        figures.append(markup.figure("eigenvalues", titles["eigenvalues"], how, "", changing))
    else:
        title = markup.sentence(titles["eigenvalues"])
        how = f"The {markup.term('second eigenvalue')} of the walk; its graph does not change."
        figures.append(
            f'<figure><h2 id="eigenvalues-title">{title}</h2><p class="how">{how}</p></figure>'
        )
    return markup.section("Where did the server walk?", "".join(figures))
