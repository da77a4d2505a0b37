"""Steps of flows that Duebook performs itself, each a program that a node starts as a command."""
