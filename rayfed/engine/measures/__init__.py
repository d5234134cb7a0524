"""What the rows of a run say about the model: evaluation, heterogeneity, clients' own models."""
