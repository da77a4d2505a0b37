"""Duebook inside frameworks: each module needs its framework, and nothing else needs the module."""
