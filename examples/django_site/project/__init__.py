"""The site: its settings and addresses."""
