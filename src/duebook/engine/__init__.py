"""What a node does: loops around step(), which tests can call directly."""
