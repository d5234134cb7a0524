"""Numerical methods: Newton systems and minimisers."""
