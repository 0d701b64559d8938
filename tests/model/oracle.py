"""The oracle: what each script must answer and change, told once more and independently of the Lua.

It follows the table of the claim (docs/architecture.md, and the states in denyut/states.py), not the
scripts: it knows of each job who owns it, in which state it is and how it got there. After every
script the reply must be the one expected, and the store must say what the oracle says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from model import invariants
from model.faults import Violation
from model.seen import Seen

from denyut.config import Settings
from denyut.keys import Keys
from denyut.states import TERMINAL, Event, State, next_state

Names = Sequence[str]
Args = Sequence[str]

#: Which event an attempt that ends in a state has met.
ENDS = {
    State.COMPLETED: Event.COMPLETE,
    State.FAILED: Event.FAIL,
    State.CANCELLED: Event.CANCEL,
    State.IGNORED: Event.IGNORE,
    State.REJECTED: Event.REJECT,
    State.EXPIRED: Event.EXPIRE,
}
WAITING = (State.SCHEDULED, State.RETRYING)


#: Scripts whose repeat must have the same code: their callers decide by it.
SAME = frozenset(
    ("claim", "finish", "settle", "checkpoint", "requeue", "reserve", "hold_key", "commit", "once", "cancel")
)


@dataclass
class View:
    """What a record should say. Goes with the record when Redis loses it."""

    state: State | None = None
    gen: int = 0
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    fence: int = 0
    version: int = 0
    token: str = ""
    enq: str = ""
    owner: str = ""
    pid: str = ""
    lease: str = ""
    lease_until: int = 0
    due: int = 0
    settled: bool = False
    replaced: bool = False
    follows: str = ""
    conflict: str = ""
    digest: str = ""
    fp: str = ""
    result: str = ""
    checkpoint: str = ""
    committing: bool = False
    steps: dict[str, str] = field(default_factory=dict)
    by: str = ""
    expires: int = 0
    letter: bool = False  # it stands in the dead letter, and is kept until it is purged
    cancel: bool = False  # it was asked to stop
    moved: str = ""  # token of the newest reschedule
    replacing: int = 0  # fence of the attempt that has announced its replacement
    coming: int | None = None  # delay of a replacement that has come before the attempt gave way
    coming_by: str = ""
    started: int = 0
    draining: int = 0  # fence of the attempt that its worker is ending
    drains: int = 0
    suspect: int = 0
    waits: int = 0  # generation that waits for its turn
    crashed_fence: int = 0
    gone_at: int = 0  # 0 = it is kept
    ended_by: int = 0  # fence of the attempt whose outcome it is; 0 = ended from outside

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


@dataclass
class History:
    """What has happened to a job, whatever Redis remembers of it."""

    highest_fence: int = 0
    accepted: int = 0  # how often it was enqueued anew, or adopted
    data_lost: bool = False  # Redis lost something of it: nobody can promise all the rest
    bodies: int = 0
    owes: bool = False  # it has ended by itself, so its continuation is to be sent


@dataclass
class Entry:
    """What an idempotency key's entry should say."""

    job: str
    fp: str
    gone_at: int = 0


@dataclass
class Coverage:
    """What was exercised, over all examples."""

    replies: Counter[tuple[str, str]] = field(default_factory=Counter)
    transitions: Counter[tuple[State, Event]] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        for counts in (self.replies, self.transitions, self.rules):
            counts.clear()


#: Of this process: examples come and go.
COVERAGE = Coverage()


class Oracle:
    """Judges every script call.

    Args:
        keys: of the world.
        settings: of the world.
        is_dead: whether the process (owner, pid) has ended.
    """

    def __init__(self, keys: Keys, settings: Settings, is_dead: Callable[[str, str], bool]) -> None:
        self.keys = keys
        self.settings = settings
        self.is_dead = is_dead
        self.jobs: dict[str, View] = {}
        self.histories: dict[str, History] = {}
        self.entries: dict[str, Entry] = {}
        self.digests: dict[str, None] = {}  # an ordered set
        self.seen = Seen()
        self.now = 0

    # -- one call

    def notice(self, script: str, keys: Sequence[Any], args: Sequence[Any]) -> None:
        """Learn which jobs and keys a call is about, so that they are looked at from now on."""
        if script in ("hold_key", "close_key"):
            self.digests[text(keys[0]).rpartition(":")[2]] = None
        elif script not in ("overdue", "beat", "old_dead", "turn", "line_up", "note"):
            self.view(text(args[0]))
            digest = text(keys[12]).rpartition(":")[2]
            if digest != "-":
                self.digests[digest] = None

    def judge(
        self, script: str, keys: Sequence[Any], args: Sequence[Any], reply: Any, seen: Seen, first: Any = None
    ) -> None:
        """Compare a call's reply and effect with what they must be.

        ``first``: this is a repeat, to be answered as this first time.

        Raises:
            Violation: saying what differs.
        """
        from model.judges import JUDGES

        self.pass_time_quietly(seen.clock)
        answer = plain(reply)
        COVERAGE.replies[script, code_of(answer)] += 1
        given = [text(arg) for arg in args]
        try:
            JUDGES[script](self, [text(key) for key in keys], given, answer)
            if first is not None:
                expect_same(script, plain(first), answer)
            invariants.check(self, seen)
        except Violation as problem:
            short = [arg if len(arg) < 60 else f"{arg[:57]}..." for arg in given]
            raise Violation(f"{script}{short} -> {answer}: {problem}") from problem
        self.seen = seen

    def expect(self, answer: Any, *codes: str) -> None:
        """Raise unless the reply's code is one of ``codes``."""
        if code_of(answer) not in codes:
            raise Violation(f"must answer {' or '.join(codes)}")

    # -- what judges use

    def view(self, job_id: str) -> View:
        self.histories.setdefault(job_id, History())
        return self.jobs.setdefault(job_id, View())

    def fire(self, view: View, event: Event) -> None:
        """Take a transition, which must be in the table."""
        assert view.state is not None
        after = next_state(view.state, event)
        if after is None:
            raise Violation(f"{event} in state {view.state} is not in denyut.states.TRANSITIONS")
        COVERAGE.transitions[view.state, event] += 1
        view.state = after

    def accept(self, job_id: str, **fields: Any) -> View:
        """A job is new."""
        view = self.jobs[job_id] = View(**fields)
        self.histories[job_id].accepted += 1
        return view

    def grant(self, job_id: str, fence: int, owner: str, pid: str, token: str, ttl_us: int) -> None:
        """An attempt gets the lease: nobody else may have it, and no fence may be as high."""
        view, history = self.jobs[job_id], self.histories[job_id]
        if view.lease:
            raise Violation(f"granted, while the lease of {view.lease} is live")
        if fence <= history.highest_fence or fence <= view.fence:
            raise Violation(f"fence {fence} is not above {history.highest_fence}, which was granted before")
        history.highest_fence = view.fence = fence
        view.owner, view.pid, view.token = owner, pid, token
        self.give_lease(view, f"{owner}#{fence}", ttl_us)

    def fence_off(self, job_id: str) -> None:
        """Nobody who has the job can write any more, though nobody else has it."""
        view, history = self.jobs[job_id], self.histories[job_id]
        view.fence = max(view.fence + 1, self.now)
        history.highest_fence = max(history.highest_fence, view.fence)

    def give_lease(self, view: View, lease: str, ttl_us: int) -> None:
        view.lease, view.lease_until = lease, self.now + ttl_us // 1000 * 1000

    def close(self, job_id: str, retention_us: int, digest_here: bool) -> None:
        """The end of its life."""
        view = self.jobs[job_id]
        view.settled, view.lease = True, ""
        ms = -(-retention_us // 1000)
        view.gone_at = 0 if view.letter else self.now + ms * 1000
        if digest_here:
            self.close_entry(view.digest, job_id, ms if view.state == State.COMPLETED else 0)

    def close_entry(self, digest: str, job_id: str, keep_ms: int) -> bool:
        entry = self.entries.get(digest)
        if entry is None or entry.job != job_id:
            return False
        if keep_ms:
            entry.gone_at = self.now + keep_ms * 1000
        else:
            del self.entries[digest]
        return True

    def is_here(self, job_id: str, keys: Sequence[str]) -> bool:
        """Whether a call came with the entry of the job's own key."""
        return bool(self.jobs[job_id].digest) and keys[12].rpartition(":")[2] == self.jobs[job_id].digest

    def marker(self, job_id: str) -> str:
        return self.seen.parts[self.keys.partition_of(job_id)].marker

    # -- time and loss

    def pass_time(self, seen: Seen) -> None:
        """Let what is over be gone, and check."""
        self.pass_time_quietly(seen.clock)
        invariants.check(self, seen)
        self.seen = seen

    def pass_time_quietly(self, now: int) -> None:
        self.now = now
        for job_id, view in self.jobs.items():
            if view.lease and view.lease_until <= now:
                view.lease = ""
            if view.gone_at and view.gone_at <= now:
                self.jobs[job_id] = View()
        for digest in [d for d, entry in self.entries.items() if entry.gone_at and entry.gone_at <= now]:
            del self.entries[digest]

    def snapshot(self) -> Any:
        return deepcopy((self.jobs, self.entries))

    def data_lost(self, snapshot: Any | None) -> None:
        """Forget what Redis forgot. What has been granted stays granted."""
        jobs, entries = deepcopy(snapshot) if snapshot else ({}, {})
        self.jobs = {job_id: jobs.get(job_id, View()) for job_id in self.jobs}
        self.entries = entries
        for history in self.histories.values():
            history.data_lost = True

    def partition_lost(self, number: int) -> None:
        for job_id in self.jobs:
            if self.keys.partition_of(job_id) == number:
                self.jobs[job_id] = View()
            self.histories[job_id].data_lost = True
        for digest in [d for d in self.entries if self.keys.partition_of(d) == number]:
            del self.entries[digest]


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def plain(reply: Any) -> Any:
    """Return a reply with text for bytes."""
    if isinstance(reply, list):
        return [plain(each) for each in reply]
    return reply.decode() if isinstance(reply, bytes) else reply


def code_of(answer: Any) -> str:
    """Return the code that a reply begins with."""
    return str(answer[0]) if isinstance(answer, list) and answer else str(answer)


def expect_same(script: str, first: Any, again: Any) -> None:
    """Raise unless a repeated call was answered as its caller needs it.

    Counts of what was done, and the time, may differ: nothing is decided by them.
    """
    same = code_of(first) == code_of(again) and (script != "claim" or first == again)
    if script in SAME and not same:
        raise Violation(f"sent twice, it answered {first} and then {again}")
