"""Scenario files as frozen values."""
