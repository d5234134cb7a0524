"""Studies: a scenario file, or its parts as Python objects, checked before anything is started.

Only this folder imports pydantic. Plug-ins are plain frozen dataclasses, so that a client actor,
which gets their values, starts without it.
"""

from rayfed.core.dotted import apply_overrides
from rayfed.engine.settings import Participation, Stop
from rayfed.population import Connection, Crash, Server, Stragglers
from rayfed.study.scenario.expansion import expand
from rayfed.study.scenario.files import load
from rayfed.study.scenario.names import slug
from rayfed.study.scenario.parts import (
    CheckpointSection,
    ClientsSection,
    ClockSection,
    Different,
    Evaluate,
    ExecutorSection,
    ProblemSection,
    Sweep,
)
from rayfed.study.scenario.settings import described, plain, summary
from rayfed.study.scenario.study import Study

__all__ = [
    "CheckpointSection",
    "ClientsSection",
    "ClockSection",
    "Connection",
    "Crash",
    "Different",
    "Evaluate",
    "ExecutorSection",
    "Participation",
    "ProblemSection",
    "Server",
    "Stop",
    "Stragglers",
    "Study",
    "Sweep",
    "apply_overrides",
    "described",
    "expand",
    "load",
    "plain",
    "slug",
    "summary",
]
