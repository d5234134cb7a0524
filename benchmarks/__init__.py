"""Speed and memory, as ratios against a bare NumPy loop over clients in the same run."""
