"""Flows: files of YAML become graphs of steps, and say what is wrong with them."""
