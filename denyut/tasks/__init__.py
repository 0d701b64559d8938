"""What a job is: its key, claim, run, completion and recovery."""
