"""Migrations of the tables that Denyut has in a Django database."""
