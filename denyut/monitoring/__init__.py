"""Seeing it: status, metrics, doctor, command line."""
