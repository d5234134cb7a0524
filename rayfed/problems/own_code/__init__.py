"""Training code of the user's own as a problem."""
