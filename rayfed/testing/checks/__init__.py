"""Checks of plug-ins, as functions: a module for each kind.

`checks` returns functions of a plug-in class and an empty folder. What is promised of values is a
function ``check_...(value)`` here, which is called with every example of the class that is of the
type of its argument; ``variants(cls, folder)`` of a module makes others than `examples`. A check
raises an `AssertionError` that describes the fault, or `Skipped` with a reason; its docstring is
the promise that it checks.
"""

from rayfed.testing.checks.common import Check, Skipped, checks, require

__all__ = ["Check", "Skipped", "checks", "require"]
