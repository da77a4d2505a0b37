"""Stores of the database: one protocol, one store per kind of database; no decisions."""
