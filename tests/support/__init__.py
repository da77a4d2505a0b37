"""Helpers that several rooms of tests share; no tests are here."""
