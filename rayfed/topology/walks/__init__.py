"""Walks: Markov chains of a server that moves from client to client."""
