"""What a node does: loops around step(), each of which tests call directly."""
