"""Broken scripts, each with one line changed: the model must find every one of them.

A model that cannot fail proves nothing. Each defect here is one that somebody could really write, and
each breaks another promise. Two can only be told from the right ones when Redis loses data, which the
model does not play, and three so rarely that most seeds miss them: ``elsewhere`` names the unit tests that
find them.
"""

from __future__ import annotations

from model.scripts import Mutant

MUTANTS = {
    "finish without the fence": Mutant(
        "finish", "old[2] ~= fence or ", "", "an attempt that was taken over ends the job of the new one"
    ),
    "settle without the fence": Mutant(
        "settle",
        "or old[2] ~= ARGV[2] ",
        "",
        "a loser closes the job while the winner sends its continuation",
    ),
    "settle without the state": Mutant(
        "settle",
        "if old[1] == 'RUNNING' or old[1] == 'QUEUED'",
        "if old[1] == 'SCHEDULED'",
        "a running job is closed, and never recovered",
        elsewhere="tests/unit/tasks/test_finish.py",
    ),
    "claim beside a live lease": Mutant(
        "claim",
        "elseif job.state == 'RUNNING' and holder then",
        "elseif job.state == 'RUNNING' and holder and false then",
        "two attempts run at once",
    ),
    "claim of an ended job": Mutant(
        "claim",
        "elseif terminal and (job.settled or holder) then",
        "elseif terminal and holder then",
        "an ended job is replayed",
    ),
    "claim of an older generation": Mutant(
        "claim",
        "elseif tonumber(ARGV[5]) > 0 and tonumber(ARGV[5]) < job.gen then",
        "elseif false then",
        "a stale copy runs a job that waits for its retry",
    ),
    "a fence that does not grow": Mutant(
        "claim",
        "math.max(job.fence + 1, now)",
        "job.fence + 1",
        "after a flush, fences begin again",
        elsewhere="tests/unit/tasks/test_claim.py",
    ),
    "a repeated claim is another one": Mutant(
        "claim",
        "if job.token == token and holder ==",
        "if false and holder ==",
        "a claim whose reply was lost finds itself busy",
    ),
    "a crash is counted twice": Mutant(
        "recover", "tonumber(r[4]) + (what == 'crashed' and 1 or 0)", "tonumber(r[4]) + 2", "dead too early"
    ),
    "recovery beside a live lease": Mutant(
        "recover",
        "local owned = left > 0 and not dead",
        "local owned = false",
        "a living worker loses its job",
    ),
    "recovery without a new generation": Mutant(
        "recover",
        "redis.call('HSET', record, 'state', 'QUEUED', 'gen', gen)",
        "redis.call('HSET', record, 'state', 'QUEUED')",
        "the crashed attempt's message is as good as the new one",
    ),
    "a published job is not watched": Mutant(
        "recover",
        "redis.call('ZADD', queued, int(now), id)\n  return send(reason)",
        "return send(reason)",
        "a message that is lost again is lost for good",
    ),
    "an unsettled job is given up": Mutant(
        "recover",
        "redis.call('ZADD', leases, int(now + hold * 2 ^ math.min(copies - 1, 20)), id)",
        "",
        "its continuation is never sent",
    ),
    "a retry without the fence": Mutant(
        "requeue",
        "if old[1] ~= 'RUNNING' or old[2] ~= fence then",
        "if old[1] ~= 'RUNNING' then",
        "an attempt that was taken over takes the job away from the new one",
        elsewhere="tests/unit/tasks/test_finish.py",
    ),
    "a retry that is not in the schedule": Mutant(
        "requeue", "    put_message(id, now, delay)\n", "", "it is never published"
    ),
    "a checkpoint without the fence": Mutant(
        "checkpoint", " or old[2] ~= ARGV[2]", "", "the next attempt starts from a loser's data"
    ),
    "a key for two jobs": Mutant(
        "reserve", "  elseif holder[1] then", "  elseif false then", "two jobs live under one key"
    ),
    "a key that stays": Mutant(
        "end", "close(id, state, now, tonumber(ARGV[4]))", "", "a cancelled job keeps its indexes and its key"
    ),
    "an id for two jobs": Mutant(
        "reserve",
        "if old[2] == ARGV[7] then return answer() end",
        "",
        "a producer's repeat is taken for another",
    ),
    "a beat without the fence": Mutant(
        "beat",
        "if holder or not state or recorded ~= fence then return 'LOST' end",
        "if not state then return 'LOST' end",
        "an attempt that was taken over renews the lease as its own",
    ),
    "a due job is published early": Mutant(
        "due",
        "if late < 0 and not expired then",
        "if false then",
        "a retry does not wait",
        elsewhere="tests/unit/tasks/test_due.py",
    ),
    "a cancelled job can be parked": Mutant(
        "park",
        "if old[1] ~= 'QUEUED' or",
        "if",
        "an ended job waits in the store",
        elsewhere="tests/unit/tasks/test_follow.py",
    ),
}
