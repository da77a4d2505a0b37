"""What developers of Duebook run: files that are derived from the code."""
