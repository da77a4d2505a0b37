"""Plain values that the rooms of the house hand to each other; no decisions, no I/O."""
