"""How events reach those who listen: members share partitions, cursors move, failures wait."""
