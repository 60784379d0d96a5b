-- lists describes waitlists. It changes nothing.
--
--	ARGV[2...] -> buckets
--
-- Output, for each bucket: see describe.
local answer = {}
for i = 2, #ARGV do
	describe(ARGV[i], answer)
end
return answer
