-- announce has the function that wakes idle servers for pending tasks, see Server.Listen.

-- idleOf is the set of the servers that wait for tasks of a pending list, by their IDs.
local function idleOf(key) return string.sub(key, 1, -8) .. "headway_idle" end

-- announce wakes one idle server for each of n tasks: it takes the server out of the set, and sends it the key. A
-- server that no one hears has ended. A user of Redis that may not publish changes the list all the same, and the
-- servers find the tasks when they look again.
local function announce(key, n)
	for _ = 1, n do
		repeat
			local id = redis.pcall("SPOP", idleOf(key))
			local heard = type(id) == "string" and redis.pcall("PUBLISH", "headway:pending:" .. id, key)
			if type(heard) ~= "number" then
				return
			end
		until heard > 0
	end
end
