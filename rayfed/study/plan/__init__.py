"""Plans, from a scenario to runs: data, optimum, first model."""
