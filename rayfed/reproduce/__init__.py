"""Published studies: what they claim, and whether it holds."""
