"""How events reach their consumers: members share partitions, cursors move, failures wait."""
