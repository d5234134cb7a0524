"""Studies: a scenario file, or its parts as Python objects, checked before anything is started.

Only this folder imports pydantic. Plug-ins are plain frozen dataclasses, so that a client actor,
which gets their values, starts without it.
"""

from rayfed.core.dotted import apply_overrides
from rayfed.engine.settings import Participation, Stop
from rayfed.population import Battery, Connection, Crash, Energy, Server, Stragglers
from rayfed.study.scenario.expansion import expand
from rayfed.study.scenario.files import load
from rayfed.study.scenario.names import slug
from rayfed.study.scenario.parts import (
    Checkpoint,
    ClientGroup,
    Clients,
    Clock,
    Evaluate,
    Executor,
    Sweep,
)
from rayfed.study.scenario.settings import described, plain, summary
from rayfed.study.scenario.study import Study, StudyKeywords

__all__ = [
    "Battery",
    "Checkpoint",
    "ClientGroup",
    "Clients",
    "Clock",
    "Connection",
    "Crash",
    "Energy",
    "Evaluate",
    "Executor",
    "Participation",
    "Server",
    "Stop",
    "Stragglers",
    "Study",
    "StudyKeywords",
    "Sweep",
    "apply_overrides",
    "described",
    "expand",
    "load",
    "plain",
    "slug",
    "summary",
]
