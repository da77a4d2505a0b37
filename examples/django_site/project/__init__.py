"""The site: its settings and URLs."""
