"""Result folders in an object store: a local copy, and a mirror that uploads what changes.

`staging` begins copies and brings them here, `mirror` writes what is remote. Nothing here is
imported for local folders.
"""
