"""Locks for the user's own code: ``app.denyut.lock(name)``; see docs/locks.md."""
