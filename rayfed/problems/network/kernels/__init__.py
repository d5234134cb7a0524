"""Kernels of networks, which compute with torch; imported when a study uses a network."""
