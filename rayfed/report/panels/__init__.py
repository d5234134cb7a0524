"""The topics of the page, a file each: its data, its words, its figures and its panels.

A panel is a class that extends `base.Panel` or one of its two special cases and has a ``name``.
Dropping a file into this folder is enough for it to be on the page; nothing lists them. Panels do
not import each other.
"""
