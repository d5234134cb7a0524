"""Problems: the objectives that clients minimise, one per file."""
