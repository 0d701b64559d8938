"""Denyut in frameworks: each is a package that only its users import."""
