-- delay changes when asynq delivers scheduled tasks of one queue.
--
--	KEYS[1] -> asynq's scheduled set
--	ARGV[1] -> prefix of asynq's task keys
--	then for each task its ID and the second of its delivery
--
-- Output: the IDs of tasks that do not exist.
local gone = {}
for i = 2, #ARGV, 2 do
	if redis.call("EXISTS", ARGV[1] .. ARGV[i]) == 0 then
		gone[#gone + 1] = ARGV[i]
	else
		redis.call("ZADD", KEYS[1], "XX", ARGV[i + 1], ARGV[i])
	end
end
return gone
