"""What a run executes; targets know one run at a time and may touch the world outside."""
