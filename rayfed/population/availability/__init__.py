"""Availability of clients in virtual time."""
