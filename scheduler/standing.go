package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

// standScript reads all that Redis keeps of a waiting task, in one moment. It changes nothing.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	ARGV[2] -> task
//
// Output: now; line and place (JSON), empty where none is kept; "1" where the task is being woken; how many refusals were counted;
// then, where it stands in its line: its rank from zero, how many stand there, when it is due by Redis's clock.
const standScript = preamble + `
local kept = redis.call("HMGET", ARGV[1] .. "place:" .. ARGV[2], "line", "place")
local line = kept[1]
local leased = redis.call("ZSCORE", KEYS[2], ARGV[2]) and "1" or ""
local answer = {string.format("%.0f", now), line or "", kept[2] or "", leased, redis.call("GET", ARGV[1] .. "refused:" .. ARGV[2]) or "0"}
local score = line and redis.call("ZSCORE", ARGV[1] .. "line:" .. line, ARGV[2])
if score then
	answer[6] = tostring(redis.call("ZRANK", ARGV[1] .. "line:" .. line, ARGV[2]))
	answer[7] = tostring(redis.call("ZCARD", ARGV[1] .. "line:" .. line))
	answer[8] = string.format("%.0f", moment(line, tonumber(score)))
end
return answer
`

// standing is what Redis keeps of a waiting task.
type standing struct {
	now      time.Time // by Redis's clock, as due is
	line     string    // empty where no place is kept
	kept     keptPlace
	others   []OtherPlace
	waking   bool // taken out of its line, and about to be delivered
	refusals int

	stands   bool // it is in the line; what is below is zero otherwise
	rank, of int  // rank counts from 1
	due      time.Time
}

func (l lines) standing(ctx context.Context, t Task) (standing, error) {
	fail := func(err error) (standing, error) {
		return standing{}, fmt.Errorf("look for the place of %s: %w", t, err)
	}
	answer, err := redis.NewScript(standScript).Run(ctx, l.client, []string{root + "index", root + "leased"}, root, t.String()).StringSlice()
	if err != nil {
		return fail(err)
	}
	s := standing{line: answer[1], waking: answer[3] != "", stands: len(answer) > 5}
	var n numbers
	s.now, s.refusals = n.moment(answer[0]), n.count(answer[4])
	if s.stands {
		s.rank, s.of, s.due = n.count(answer[5])+1, n.count(answer[6]), n.moment(answer[7])
	}
	if n.err != nil {
		return fail(n.err)
	}
	if s.line == "" {
		return s, nil
	}
	place := struct {
		*keptPlace

		Others []OtherPlace `json:"others"`
	}{keptPlace: &s.kept}
	if err := json.Unmarshal([]byte(answer[2]), &place); err != nil {
		return fail(err)
	}
	s.others = place.Others
	return s, nil
}

// numbers reads numbers that Redis wrote, and keeps the first error.
type numbers struct{ err error }

func (n *numbers) int(s string) int64 {
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil && n.err == nil {
		n.err = err
	}
	return i
}

func (n *numbers) count(s string) int { return int(n.int(s)) }

func (n *numbers) moment(s string) time.Time { return time.UnixMicro(n.int(s)).UTC() }

// OtherPlace is a place that a task with several charges has in another bucket than the one it stands in the line of.
type OtherPlace struct {
	Bucket string             `json:"bucket,omitempty"`
	Limit  string             `json:"limit,omitempty"`
	Key    string             `json:"key,omitempty"`
	Shard  int                `json:"shard,omitempty"`
	Place  reservations.Place `json:"place"`
}

// Name is the name of the bucket.
func (p OtherPlace) Name() string {
	if p.Bucket != "" {
		return p.Bucket
	}
	return reservations.Charge{Limit: p.Limit, Key: p.Key, Shard: p.Shard}.Bucket()
}
