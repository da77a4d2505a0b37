"""What will happen: the real planner over many schedules on a virtual clock, without a database;
pure."""
