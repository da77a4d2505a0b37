"""Plain values that the packages pass to each other; no decisions, no I/O."""
