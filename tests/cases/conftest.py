"""The files of the user import packages that may not be installed."""

collect_ignore = ["user"]
