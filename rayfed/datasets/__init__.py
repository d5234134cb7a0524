"""Data: readers and generators, how rows are split over clients, and the rows of each client."""
