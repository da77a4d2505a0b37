"""What a run executes; targets know one run at a time, and may have side effects outside."""
