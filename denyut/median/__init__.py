"""Exact running medians of event streams."""
