package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// Two pages that write for three hours leave one hour in Redis: a ring that does not grow.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	began := time.Date(2026, 11, 21, 23, 10, 0, 0, time.UTC)
	now := began
	pages := []*history{newHistory(client), newHistory(client)}
	var buckets []state.Bucket
	for i := range 3 * bucketsMost {
		buckets = append(buckets, state.Bucket{Bucket: strings.Repeat("k", i+1), Waiting: i})
	}
	limits := []state.Limit{{Limit: "api", Buckets: buckets}}
	for i := range 3 * slots {
		queues := []*asynq.QueueInfo{{Active: i, Processed: 6 * i}}
		f := fleet{Snapshot: state.Snapshot{At: now, Queues: queues, Limits: limits}}
		if err := pages[i%2].write(t.Context(), sampleOf(f)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(sampleEvery)
	}
	if n := client.HLen(t.Context(), keyHistory).Val(); n != int64(slots) {
		t.Errorf("the ring has %d places, not %d", n, slots)
	}
	if left := server.TTL(keyHistory); left != historyKept {
		t.Errorf("the ring is kept for %v", left)
	}
	all, err := pages[0].samples(t.Context(), now)
	if err != nil || len(all) < slots-1 {
		t.Fatalf("%d samples, %v", len(all), err)
	}
	if first, last := all[0], all[len(all)-1]; last.Running != 3*slots-1 ||
		last.At-first.At > int64(time.Hour/time.Second) {
		t.Errorf("from %+v to %+v", first, last)
	}
	if n := len(all[0].Buckets); n != bucketsMost {
		t.Errorf("a sample has %d buckets", n)
	}
	if longest := strings.Repeat("k", 3*bucketsMost); all[0].Buckets[longest].Waiting != 3*bucketsMost-1 {
		t.Error("the longest waitlist is missing")
	}
}

// What another version wrote is left out.
// What a new Redis lacks is not used: an unused bucket fills up, and calls in flight are not known yet.
func TestUsedOfANewRedis(t *testing.T) {
	t.Parallel()
	calls := reservations.MeterView{Meter: reservations.InFlight(5)}
	requests := reservations.MeterView{Meter: reservations.PerMinute("requests", 5)}
	for name, c := range map[string]struct {
		view reservations.View
		want float64
	}{
		"not in use": {reservations.View{Meters: []reservations.MeterView{requests}}, 0},
		"not known":  {reservations.View{Found: true, Forgotten: 26, Meters: []reservations.MeterView{calls}}, 0},
		"in flight":  {reservations.View{Found: true, Meters: []reservations.MeterView{calls}}, 1},
	} {
		c.view.Limit = "api"
		limits := []state.Limit{{Limit: "api", Buckets: []state.Bucket{state.NewBucket(c.view)}}}
		s := sampleOf(fleet{Snapshot: state.Snapshot{Limits: limits}})
		if used := s.Buckets["api"].Used; used != c.want {
			t.Errorf("%s: %v is used, want %v", name, used, c.want)
		}
	}
}

func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer func() { _ = client.Close() }()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	h := newHistory(client)
	client.HSet(t.Context(), keyHistory, "1", "{", "2", `{"t":"x"}`, "3", `{"t":99999999999}`, "4", `{"t":1}`)
	if all, err := h.samples(t.Context(), now); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// The rate is computed between samples: there is none over a gap, and none is lost at midnight, when the count
// restarts.
func TestRates(t *testing.T) {
	t.Parallel()
	samples := []sample{
		{At: 0, Processed: 100},
		{At: 10, Processed: 120},
		{At: 20, Processed: 5},
		{At: 500, Processed: 900},
		{At: 510, Processed: 900},
	}
	var got []float64
	for _, p := range perMinute(samples) {
		got = append(got, p.Value)
	}
	if len(got) != 3 || got[0] != 120 || got[1] != 30 || got[2] != 0 {
		t.Errorf("rates %v", got)
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(ago time.Duration, v float64) point { return point{At: now.Add(-ago), Value: v} }
	c := newChart("Waiting", "tasks", []point{
		at(time.Hour, 0), at(time.Hour-sampleEvery, 50), at(20*time.Second, 1234), at(10*time.Second, 100), at(0, 617),
	}, now, 0)
	if strings.Count(c.Line, "M") != 2 || strings.Count(c.Area, "Z") != 2 {
		t.Errorf("a gap is drawn over: %s", c.Line)
	}
	if c.Now != "617" || c.Most != "1\u202f234" || c.Top != c.Most || !strings.HasPrefix(c.Line, "M0.0 47.0L") ||
		!strings.HasSuffix(c.Line, "L360.0 24.0") {
		t.Errorf("%+v", c)
	}
	if share := newChart("Used", "%", []point{at(0, 12)}, now, 100); share.Top != "100" || share.Most != "12" {
		t.Errorf("of a fixed scale: %+v", share)
	}
	if none := newChart("x", "y", nil, now, 0); none.Line != "" || none.Now != "–" {
		t.Errorf("without samples: %+v", none)
	}
}
