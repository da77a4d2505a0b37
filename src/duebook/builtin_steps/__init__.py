"""The flow steps built into Duebook, each a program that a node starts as a command."""
