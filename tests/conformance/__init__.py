"""What every store must do: the same tests for each database."""
