"""The topics of the page."""
