"""What figures share: colours, axes, labels, rows of clients, the rounds above them."""
