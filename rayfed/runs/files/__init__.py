"""What a run writes into its folder."""
