"""The story of a job whose worker was killed, as real workers wrote it."""

from __future__ import annotations

import os
import signal

from support import wait_until


def test_a_killed_worker_and_the_recovery_are_in_the_story_with_names_and_evidence(worker):
    first = worker("apps.jobs", concurrency=1)
    pulse = first.app.denyut
    result = first.module.steps.delay(60, 0.15)
    wait_until(lambda: (pulse.jobs.get(result.id, fresh=True).record.checkpoint or 0) >= 2, 20, "two steps")
    lost = pulse.jobs.get(result.id, fresh=True).record
    second = worker("apps.jobs", concurrency=1)
    first.kill_all()
    assert result.get(timeout=60)[1:] == [2, 1]
    wait_until(lambda: pulse.jobs.get(result.id, fresh=True).record.settled, 20, "it to be settled")
    assert second.running

    story = pulse.jobs.explain(result.id)
    told = {event.kind: event for event in story.events}
    crashed, published, claimed = told["crashed"], told["published"], told["claimed"]
    assert crashed.more == {"lost": lost.owner, "lost_pid": str(lost.pid)}
    assert crashed.fence == lost.fence
    assert 1_000_000 < int(crashed.data) < 10_000_000, "us from its last beat to its crash being noticed"
    assert published.by == crashed.by != lost.owner
    assert (published.data, published.generation) == ("crashed", 2)
    assert (claimed.attempt, claimed.by) == (2, published.by)
    order = ["enqueued", "claimed", "crashed", "published", "recovered", "completed"]
    kinds = [event.kind for event in story.events if event.kind in order]
    assert kinds == ["enqueued", "claimed", "crashed", "published", "recovered", "claimed", "completed"]
    assert story.verdict == "completed"
    assert story.next.startswith("nothing; it is forgotten in")


def test_a_killed_process_whose_job_dies_is_explained_as_a_dead_letter(worker):
    node = worker("apps.jobs", env={"MAX_CRASHES": "0"})
    pulse = node.app.denyut
    result = node.module.steps.delay(100, 0.2)
    running = lambda: pulse.jobs.get(result.id, fresh=True).record.pid  # noqa: E731
    os.kill(wait_until(running, 20, "it to run"), signal.SIGKILL)
    wait_until(lambda: pulse.jobs.dead().letters, 30, "it to be a dead letter")
    (letter,) = pulse.jobs.dead().letters
    assert (letter.id, letter.budget, letter.reason) == (
        result.id,
        "crashes",
        "lost 1 worker (max_crashes=0)",
    )
    assert letter.errors[0].type == "WorkerLost"
    assert (letter.args, letter.message) == ("(100, 0.2)", True)
    wait_until(lambda: pulse.jobs.get(result.id, fresh=True).record.settled, 20, "Celery to be told")
    text = "\n".join(pulse.jobs.explain(result.id).lines())
    assert "verdict: dead: lost 1 worker (max_crashes=0)" in text
    assert "jobs retry" in text
