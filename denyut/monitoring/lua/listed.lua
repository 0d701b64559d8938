-- Which of these jobs of one partition stand in an index, so that Redis lists them.
-- KEYS: the indexes
-- ARGV: ids of jobs
-- Returns: for each, in order: 1 if one of the indexes has it, else 0
-- Complexity: O(jobs * log n) in the jobs of the partition.
local found = {}
for i, id in ipairs(ARGV) do
  found[i] = 0
  for _, index in ipairs(KEYS) do
    if redis.call('ZSCORE', index, id) then
      found[i] = 1
      break
    end
  end
end
return found
