"""Flower apps as own training code."""
