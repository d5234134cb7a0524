"""The figures of the page, each a function from results to a Plotly figure, for notebooks too."""

from analysis.figures.convergence import convergence
from analysis.figures.fairness import fairness
from analysis.figures.fit import fit
from analysis.figures.mixing import mixing
from analysis.figures.participation import participation, participation_over_rounds
from analysis.figures.personal import personal, personal_over_rounds
from analysis.figures.sweep import sweep_line, sweep_map
from analysis.figures.timeline import timeline
from analysis.figures.walk import eigenvalues, visits, walk
from analysis.palette import dark

__all__ = [
    "convergence",
    "dark",
    "eigenvalues",
    "fairness",
    "fit",
    "mixing",
    "participation",
    "participation_over_rounds",
    "personal",
    "personal_over_rounds",
    "sweep_line",
    "sweep_map",
    "timeline",
    "visits",
    "walk",
]
