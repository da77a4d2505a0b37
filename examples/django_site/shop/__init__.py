"""A shop: orders that come in are confirmed by a task."""
