-- snooze ends a delivery whose task waits. It runs in place of the script of asynq that retries or archives the task:
-- nothing is counted as a failure, and a task on its last attempt waits as any other.
--
--	KEYS[1] -> asynq's key of the task.
--	KEYS[2] -> asynq's list of active tasks.
--	KEYS[3] -> asynq's set of leases.
--	KEYS[4] -> asynq's retry set.
--	ARGV[1] -> the task ID.
--	ARGV[2] -> asynq's message of the task, with the reason as its last error.
--	ARGV[3] -> the second in which asynq delivers the task, should it not be woken.
--	ARGV[4] -> the Note.
--
-- Output: as that of asynq's script.
if redis.call("LREM", KEYS[2], 0, ARGV[1]) == 0 or redis.call("ZREM", KEYS[3], ARGV[1]) == 0 then
	return redis.error_reply("NOT FOUND")
end
redis.call("ZADD", KEYS[4], ARGV[3], ARGV[1])
redis.call("HSET", KEYS[1], "msg", ARGV[2], "state", "retry", "headway_note", ARGV[4])
return redis.status_reply("OK")
