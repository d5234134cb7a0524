"""Executors: clients live in this process, or in Ray actors."""
