"""Tables, figures and the page, made from a result folder alone."""
