"""The job store: the durable copy of every job, in SQL."""
