"""The page: one self-contained file made from a result folder alone."""
