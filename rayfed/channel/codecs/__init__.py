"""Codecs: a file each."""
