"""The topics of the page, one file each: its data, its words, its figures and its panel.

A panel is a class that extends `base.Panel` or one of its two special cases and has a ``name``.
Dropping a file into this folder is enough for it to be on the page; nothing lists them. Panels do
not import each other.
"""
