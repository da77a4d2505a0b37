"""The dashboard as HTML, on both stores."""
