"""Thin adapters to frameworks."""
