-- enqueue is put around asynq's script that pushes a new task. KEYS[#KEYS] is asynq's pending list.
--
-- Output: that of asynq's script.
local function enqueue()
-- asynq's script
end
local n = enqueue()
if n == 1 then
	announce(KEYS[#KEYS], 1)
end
return n
