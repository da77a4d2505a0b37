"""The REST API on both stores."""
