-- Note in the record of an ended job that one part of its continuation is done.
-- KEYS: the fourteen of job.lua
-- ARGV: 1 id, 2 fence, 3 field of the record
-- Returns: 'OK' | 'LOST' another attempt owns the job
-- Complexity: O(1). Sent twice, it answers the same.
-- @include time
-- @include job
if redis.call('HGET', record, 'fence') ~= ARGV[2] then return 'LOST' end
redis.call('HSET', record, ARGV[3], '1')
changed(now_us())
return 'OK'
