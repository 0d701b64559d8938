"""A kept job as text, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from denyut.database.outbox_take import Row
from denyut.errors import UnreadableMessage
from denyut.tasks.outbox.keeper import keeping
from denyut.tasks.outbox.row import LEAST_RETENTION, from_row, to_text


def kept(post, *args: Any, **options: Any) -> tuple[Any, Any]:
    with keeping(post.pulse) as keeper:
        post.note.apply_async(args, **options)
    return keeper.kept[0]


def row(job_id: str, message: str, *, due_in: float | None = None, age: float = 0.0) -> Row:
    return Row(seq=1, id=job_id, task="t", message=message, attempts=0, due_in=due_in, age=age)


def test_intent_and_message_come_back_as_they_were(lite):
    intent, envelope = kept(lite, "ä\u2028", idempotency_key="k", unique_for=60, unique_scope="me")
    text = to_text(intent, envelope)
    assert text.isascii()
    again, message = from_row(row(intent.id, text))
    assert (again.id, again.task, again.key, again.digest, again.token) == (
        *(intent.id, intent.task, intent.key, intent.digest, intent.token),
    )
    assert (again.kept, again.frozen, again.attempt) == (True, True, None)
    assert again.unique == intent.unique
    assert message == envelope


def test_times_are_what_is_left_of_them(lite):
    intent, envelope = kept(lite, countdown=60, expires=100)
    text = to_text(intent, envelope)
    again, _ = from_row(row(intent.id, text, due_in=20.0, age=40.0))
    assert again.delay == 20.0
    assert again.expires == pytest.approx(60.0, abs=1.0)
    again, _ = from_row(row(intent.id, text, due_in=0.0, age=70.0))
    assert (again.delay, again.expires) == (0.0, None), "its message says when it expires"


def test_a_short_retention_is_long_enough_for_a_relay_that_takes_over(make_post):
    post = make_post(denyut_retention=1.0)
    intent, envelope = kept(post)
    again, _ = from_row(row(intent.id, to_text(intent, envelope)))
    assert (intent.retention, again.retention) == (1.0, LEAST_RETENTION)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: "nonsense", "no JSON list"),
        (lambda d: [9, *d[1:]], "has format 9, and this version of Denyut reads 1"),
        (lambda d: [d[0], {**d[1], "more": 1}, d[2]], "asks for more, which this version does not know"),
        (lambda d: [d[0], {}, d[2]], "KeyError: 'unique'"),
        (lambda d: [d[0], {**d[1], "unique": {"later": 1}}, d[2]], "TypeError"),
        (lambda d: [d[0], d[1], "[1]"], "ValueError"),
        (lambda d: [d[0], {**d[1], "id": "other"}, d[2]], "its message is that of job"),
        (lambda d: d[:2], "no JSON list"),
        (lambda d: None, "no JSON list"),
    ],
)
def test_what_this_version_cannot_read_says_what_is_wrong(lite, change, words):
    intent, envelope = kept(lite)
    changed = change(json.loads(to_text(intent, envelope)))
    text = changed if isinstance(changed, str) else json.dumps(changed)
    with pytest.raises(UnreadableMessage, match=words):
        from_row(row(intent.id, text))
