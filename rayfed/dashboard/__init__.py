"""The dashboard: the page, served live over many studies."""

from rayfed.dashboard.serving import Served, check_needed, serve, start

__all__ = ["Served", "check_needed", "serve", "start"]
