"""Exports of runs in the formats of other tools."""
