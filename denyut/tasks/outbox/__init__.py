"""The outbox: an enqueue that takes effect if, and only if, a transaction of the application commits."""
