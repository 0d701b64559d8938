"""What Celery's signals start: the heartbeat, and the life of a worker."""
