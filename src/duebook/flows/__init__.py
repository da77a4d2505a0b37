"""Flows: turns YAML files into graphs of steps, and reports what is wrong with them."""
