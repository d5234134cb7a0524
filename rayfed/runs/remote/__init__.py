"""Result folders in an object store: the study runs in a local copy, checkpoints are uploaded.

`objects` accesses a store and locks a folder in it, `copies` downloads and uploads. Local result
folders import nothing of this package.
"""
