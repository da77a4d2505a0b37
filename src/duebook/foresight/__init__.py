"""Predicts what will happen: runs the real planner for many schedules on a virtual clock, without a
database; pure."""
