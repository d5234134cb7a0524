"""Search over settings: what is tried next."""
