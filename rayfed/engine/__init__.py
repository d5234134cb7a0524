"""The loop of a run: rounds, the virtual clock, state, stopping."""
