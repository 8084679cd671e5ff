"""Chaos: kills the real gateway between fake platforms, and accounts for every message."""
