"""What everything rests on: keyed random numbers, the fixed-shape sum, errors, plug-ins, arrays."""
