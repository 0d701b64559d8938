"""Enqueueing many jobs of a task at the price of a few."""
