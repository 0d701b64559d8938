"""The job store as the jobs see it: what changed in Redis is written to SQL, at once or soon after."""
