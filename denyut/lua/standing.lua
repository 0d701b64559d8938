-- How an attempt stands to its job, as its beat finds it.
local ENDS = {COMPLETED = true, FAILED = true, CANCELLED = true, EXPIRED = true, IGNORED = true,
  REJECTED = true, DEAD = true}

-- LAPSED: the lease is gone, but the record still names this very fence and what it does is not over.
-- Redis lost the key, or it lapsed and nobody has taken over: it may be taken again.
-- OVER: the attempt has ended by itself, its process has not told yet. Nothing is lost.
-- FORGOTTEN: Redis has lost the claim. Fences only grow, so a live record with a lower one is of an older
-- time that is back; and a record that was there while this worker's lease had not lapsed cannot have ended.
-- ttl, answered: of the lease, and since the last beat that was answered (us)
local function standing(ttl, answered, holder, mine, fence, state, recorded, settled, crashed, started)
  if holder == mine then return 'OURS' end
  local of_holder = holder and tonumber(string.match(holder, '#(%d+)$')) or 0
  local newest = of_holder < tonumber(fence)
  if newest and (state and not ENDS[state] and tonumber(recorded or 0) < tonumber(fence)
    or not state and answered < ttl) then return 'FORGOTTEN' end
  if holder or not state or recorded ~= fence then return 'LOST' end
  if state == 'RUNNING' or (ENDS[state] and settled == '0') then return 'LAPSED' end
  if state == 'QUEUED' and tonumber(crashed or 0) >= tonumber(started or 0) then return 'LOST' end
  return 'OVER'
end
