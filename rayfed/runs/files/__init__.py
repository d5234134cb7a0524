"""Files that a run writes into its folder."""
