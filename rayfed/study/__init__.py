"""Studies: a scenario file, checked before anything is started.

Only this folder imports pydantic. Plug-ins are plain frozen dataclasses, so that a client actor,
which gets their values, starts without it.
"""

from rayfed.study.scenario.docstrings import described, summary
from rayfed.study.scenario.dotted import apply_overrides
from rayfed.study.scenario.expansion import expand
from rayfed.study.scenario.fields import plain
from rayfed.study.scenario.names import slug
from rayfed.study.scenario.study import Study, load

__all__ = [
    "Study",
    "apply_overrides",
    "described",
    "expand",
    "load",
    "plain",
    "slug",
    "summary",
]
