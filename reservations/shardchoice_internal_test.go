package reservations

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Requests before the first answer are spread as well, by what was sent to each shard.
func TestPickSpreadsWithoutAnswers(t *testing.T) {
	t.Parallel()
	var s shardAnswers
	got := map[int]int{}
	for range 400 {
		got[s.pick(BucketName{Limit: "hot"}, 4, time.Second)]++
	}
	for shard := 1; shard <= 4; shard++ {
		if n := got[shard]; n < 95 || n > 105 {
			t.Errorf("shard %d was picked %d of 400 times: %v", shard, n, got)
		}
	}
}

// An answer, or an error, ends what was counted beforehand.
func TestAnswersReplaceWhatWasSent(t *testing.T) {
	t.Parallel()
	var s shardAnswers
	of := func(shard int) BucketName { return BucketName{Limit: "hot", Shard: shard} }
	now := time.Now()
	shard := s.pick(BucketName{Limit: "hot"}, 2, time.Hour)
	s.pick(BucketName{Limit: "hot"}, 2, time.Minute) // the other one
	s.note(of(shard), 0)
	if got := time.Until(s.until(of(shard), time.Now())); got > 0 {
		t.Errorf("waits %v after an error", got)
	}
	s.note(of(3-shard), 10*time.Minute)
	if got := s.until(of(3-shard), now).Sub(now); got < 10*time.Minute || got > 11*time.Minute {
		t.Errorf("waits %v after an answer of 10 minutes", got)
	}
}

// Only an answer to a new task says how long other new tasks would wait there.
func TestOnlyNewTasksSayHowLongAShardIsTaken(t *testing.T) {
	t.Parallel()
	for r, want := range map[*bucket.Request]bool{
		{Op: bucket.OpStart}: true, {Op: bucket.OpStart, Urgent: true}: true, {Op: bucket.OpReserve}: true,
		{Op: bucket.OpAllow}: true, {Op: bucket.OpStart, Promoted: true}: false, {Op: bucket.OpSettle}: false,
		{Op: bucket.OpBlock}: false, {Op: bucket.OpUnblock}: false,
		{Op: bucket.OpSync}: false, {Op: bucket.OpRelease}: false, {Op: bucket.OpRefresh}: false,
	} {
		if got := newcomer(*r); got != want {
			t.Errorf("%+v: %v, want %v", *r, got, want)
		}
	}
}

func TestLasts(t *testing.T) {
	t.Parallel()
	l := Limit{Name: "l", Shards: 4, Meters: []Meter{PerSecond("requests", 10), PerMinute("tokens", 600)}}.shard(1).rules()
	for want, tokens := range map[time.Duration]Tokens{
		0:                      {},
		400 * time.Millisecond: {"requests": 1},
		4 * time.Second:        {"requests": 1, "tokens": 10},
		seenKept:               {"tokens": 1e12},
	} {
		if got := lasts(l, l.Vector(tokens)); got != want {
			t.Errorf("%v: %v, want %v", tokens, got, want)
		}
	}
}
