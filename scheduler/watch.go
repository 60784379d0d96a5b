package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// linesScript tells how long lines are, and when their first and last task are due. It changes nothing.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	then the lines
//
// Output: now; for each line: how many stand there, when the first is due by Redis's clock, when the last is. Zeros for an empty one.
const linesScript = preamble + `
local answer = {string.format("%.0f", now)}
for i = 2, #ARGV do
	local key = ARGV[1] .. "line:" .. ARGV[i]
	local first, last = redis.call("ZRANGE", key, 0, 0, "WITHSCORES"), redis.call("ZRANGE", key, -1, -1, "WITHSCORES")
	answer[#answer + 1] = tostring(redis.call("ZCARD", key))
	answer[#answer + 1] = #first > 0 and string.format("%.0f", moment(ARGV[i], tonumber(first[2]))) or "0"
	answer[#answer + 1] = #last > 0 and string.format("%.0f", moment(ARGV[i], tonumber(last[2]))) or "0"
end
return answer
`

// linesTogether is how many lines are looked at by one script.
const linesTogether = 256

// Line is one line of waiting tasks: those of one bucket, or of the outage line.
type Line struct {
	// Bucket is the bucket's name, Limit, Shard and Key the parts of it. All are zero for Store.
	Bucket string
	Limit  string
	Shard  int
	Key    string
	// Generation is that of the bucket.
	Generation int64
	// Store says that it is the line of those who wait for the store of the buckets to answer, whatever their bucket.
	Store bool
	// Waiting is how many tasks stand there, Now the moment for which that is true, and First and Last are when the first and the last
	// of them are due, as things stand; all on Redis's clock.
	Waiting          int
	Now, First, Last time.Time
}

// Lines returns the lines in which tasks wait, the longest first: those of one limit, or of all with the empty name, and then also that
// of those who wait for the store. It looks at no more than most lines, and says whether there are others. It changes nothing. The
// error is Redis's.
func (s *Scheduler) Lines(ctx context.Context, limit string, most int) (lines []Line, more bool, err error) {
	names, more, err := s.lines.names(ctx, limit, most)
	if err != nil {
		return nil, false, err
	}
	for together := range slices.Chunk(names, linesTogether) {
		some, err := s.lines.describe(ctx, together)
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, some...)
	}
	lines = slices.DeleteFunc(lines, func(l Line) bool { return l.Waiting == 0 }) // it has just emptied
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Generation, b.Generation))
	})
	return lines, more, nil
}

// Line returns the line of one bucket and generation; nobody waits there where Waiting is zero. The error is Redis's.
func (s *Scheduler) Line(ctx context.Context, bucket string, generation int64) (Line, error) {
	found, err := s.lines.describe(ctx, []string{lineName(bucket, generation)})
	if err != nil {
		return Line{}, err
	}
	return found[0], nil
}

// names are those of the lines in the index.
func (l lines) names(ctx context.Context, limit string, most int) (names []string, more bool, err error) {
	pattern := "*"
	if limit != "" {
		pattern = limit + "[@:#]*" // a limit's name holds nothing that a pattern would read otherwise
	}
	seen := map[string]bool{} // a scan may tell twice
	for cursor := uint64(0); ; {
		page, next, err := l.client.ZScan(ctx, root+"index", cursor, pattern, 1000).Result()
		if err != nil {
			return nil, false, fmt.Errorf("list the lines of waiting tasks: %w", err)
		}
		for i := 0; i < len(page); i += 2 { // names and scores
			if name := page[i]; !seen[name] {
				if len(names) == most {
					return names, true, nil
				}
				seen[name] = true
				names = append(names, name)
			}
		}
		if cursor = next; cursor == 0 {
			return names, false, nil
		}
	}
}

// describe looks at lines, in their order.
func (l lines) describe(ctx context.Context, names []string) ([]Line, error) {
	args := []any{root}
	for _, name := range names {
		args = append(args, name)
	}
	answer, err := redis.NewScript(linesScript).Run(ctx, l.client, []string{root + "index", root + "leased"}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("look at the lines of waiting tasks: %w", err)
	}
	var n numbers
	now := n.moment(answer[0])
	described := make([]Line, len(names))
	for i, name := range names {
		d := Line{Waiting: n.count(answer[3*i+1]), Now: now, Store: name == outageLine}
		if d.Waiting > 0 {
			d.First, d.Last = n.moment(answer[3*i+2]), n.moment(answer[3*i+3])
		}
		if at := strings.LastIndexByte(name, '@'); !d.Store && at >= 0 {
			d.Bucket = name[:at]
			d.Generation, _ = strconv.ParseInt(name[at+1:], 10, 64) // a line of ours has one
			d.Limit, d.Shard, d.Key = splitBucket(d.Bucket)
		}
		described[i] = d
	}
	if n.err != nil {
		return nil, fmt.Errorf("look at the lines of waiting tasks: %w", n.err)
	}
	return described, nil
}

// OutageLine returns the line of those who wait for the store of the buckets to answer. The error is Redis's.
func (s *Scheduler) OutageLine(ctx context.Context) (Line, error) {
	found, err := s.lines.describe(ctx, []string{outageLine})
	if err != nil {
		return Line{}, err
	}
	return found[0], nil
}
