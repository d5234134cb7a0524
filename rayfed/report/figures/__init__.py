"""Parts of figures: colours, axes, marks, labels, rows of clients."""
