"""Moving the books from a file to PostgreSQL."""
