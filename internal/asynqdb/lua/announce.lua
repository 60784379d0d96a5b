-- announce has the functions that tell idle servers of pending tasks, see Server.Listen. Key is asynq's pending list.

-- announce sends the message. A user of Redis that may not publish changes the list all the same, and the servers find
-- the task when they look again.
local function announce(key)
	redis.pcall("PUBLISH", "headway:pending", key)
end

-- announceNew is announce for a new task. Behind a longer list, it needs no message.
local function announceNew(key)
	if redis.call("LLEN", key) <= 8 then
		announce(key)
	end
end
