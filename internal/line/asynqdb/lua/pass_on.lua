-- pass_on wakes an idle server for a pending task.
--
--	KEYS[1] -> asynq's pending list.
--	ARGV[1] -> number of tasks.
announce(KEYS[1], tonumber(ARGV[1]))
return 0
