"""Where the books are kept: one protocol, one store per database; no decisions."""
