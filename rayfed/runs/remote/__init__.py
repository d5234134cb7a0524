"""Result folders in an object store: a local copy, and a mirror that uploads what changes.

`session` has what the rest of rayfed uses. Nothing here is imported for local folders, except
`place`, which imports nothing.
"""
