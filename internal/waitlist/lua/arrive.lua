-- arrive reads the records of delivered tasks. It changes nothing.
--
--	ARGV[2...] -> for each task: task, number of buckets, the buckets
--
-- Output, for each task: see arrived; then the number of waiting tasks of each of its buckets.
local answer, counts, i = {}, {}, 2
while i < #ARGV do
	local last = i + 1 + tonumber(ARGV[i + 1])
	arrived(ARGV[i], answer)
	for b = i + 2, last do
		counts[ARGV[b]] = counts[ARGV[b]] or count(ARGV[b])
		answer[#answer + 1] = tostring(counts[ARGV[b]])
	end
	i = last + 1
end
return answer
