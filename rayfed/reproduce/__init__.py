"""Published studies: their claims, runs and verdicts."""
