"""Checks of plug-ins, as functions: a module for each kind.

A check is a function ``check_...(cls, folder)`` of a plug-in class and an empty folder. It raises
an `AssertionError` that says what is wrong, or `Skipped` with a reason; its docstring is the
promise that it checks.
"""

from rayfed.testing.checks.common import Check, Skipped, checks, require

__all__ = ["Check", "Skipped", "checks", "require"]
