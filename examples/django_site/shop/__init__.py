"""A shop: a task confirms each new order."""
