"""Common to the stores: the operations of a transaction, written once on named statements."""
