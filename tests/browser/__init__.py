"""The dashboard in a real browser: Debian's chromium without a window, driven by playwright."""
