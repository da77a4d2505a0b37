"""Helpers shared by several directories of tests; contains no tests."""
