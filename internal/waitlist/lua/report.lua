-- report stores answers of buckets, and removes tasks that began.
--
--	ARGV[2...] -> see reported
--
-- Output: nothing.
local before = soonest()
reported(2)
wake(before)
return {}
