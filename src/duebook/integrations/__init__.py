"""Duebook inside frameworks: each module needs its framework, and no other code needs the
module."""
