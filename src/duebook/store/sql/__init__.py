"""What the stores share: the verbs of a transaction, written once against named statements."""
