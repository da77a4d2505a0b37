"""Attacks on a running node, each for as long as one likes; the short forms are among the tests."""
