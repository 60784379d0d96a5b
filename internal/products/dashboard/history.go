package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// The last hour, without Prometheus: the pages that run write a sample every 10 s into one hash of Redis, whose fields
// are the places of a ring. So its size is bounded: slots * (bucketsMost+1) samples, about half a megabyte at most. Two
// pages write the same places. Where no page runs, the charts have a gap.
const (
	keyHistory  = "headway:{dashboard}:history"
	sampleEvery = 10 * time.Second
	slots       = int(time.Hour / sampleEvery)
	// bucketsMost is how many buckets a sample has: the buckets with the longest waitlists.
	bucketsMost = 40
	// historyKept is how long the hash outlives the last page.
	historyKept = 2 * time.Hour
)

// sample is one moment of the fleet. The keys of its JSON are stored.
type sample struct {
	At        int64                 `json:"t"` // seconds since 1970
	Running   int                   `json:"a"`
	Ready     int                   `json:"p"`
	Waiting   int                   `json:"w"`
	Dead      int                   `json:"d"`
	Processed int                   `json:"n"` // since midnight UTC
	Buckets   map[string]bucketPart `json:"b,omitempty"`
}

// bucketPart is one bucket in a sample: waiting tasks, and the share of the fullest meter that is used.
type bucketPart struct {
	Waiting int     `json:"w"`
	Used    float64 `json:"u"`
}

func slotOf(at time.Time) int64 { return at.Unix() / int64(sampleEvery/time.Second) }

// places are the fields of the ring.
func places() []string {
	all := make([]string, slots)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// history reads and writes the ring. Safe for concurrent use.
type history struct {
	client redis.UniversalClient

	reading chan struct{} // holds one: one read at a time; guards what is below
	read    int64         // slot in which samples was read
	all     []sample
}

func newHistory(client redis.UniversalClient) *history {
	return &history{client: client, reading: make(chan struct{}, 1)}
}

// sampleOf is what the ring keeps of a look.
func sampleOf(f fleet) sample {
	t := f.Totals()
	s := sample{
		At: f.At.Unix(), Running: t.Running, Ready: t.Ready, Waiting: t.Waiting, Dead: t.Dead, Processed: t.Processed,
		Buckets: map[string]bucketPart{},
	}
	for _, b := range f.Buckets() {
		if len(s.Buckets) == bucketsMost {
			break
		}
		part := bucketPart{Waiting: b.Waiting}
		for _, m := range b.Meters {
			// Unused buckets of a new Redis fill up, and whether calls of before still run is not known.
			unknown := m.View.Kind == reservations.KindInFlight && b.Forgotten > 0
			if m.Capacity > 0 && b.InUse && !unknown {
				part.Used = max(part.Used, 1-m.Level/m.Capacity)
			}
		}
		part.Used = float64(int(part.Used*1000)) / 1000
		s.Buckets[b.Bucket] = part
	}
	return s
}

// write stores a sample in its place of the ring.
func (h *history) write(ctx context.Context, s sample) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	place := strconv.Itoa(int(slotOf(time.Unix(s.At, 0)) % int64(slots)))
	pipe := h.client.Pipeline()
	pipe.HSet(ctx, keyHistory, place, text)
	pipe.Expire(ctx, keyHistory, historyKept)
	_, err = pipe.Exec(ctx)
	if redis.HasErrorPrefix(err, "WRONGTYPE") { // another program has made the key
		err = h.client.Del(ctx, keyHistory).Err()
	}
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// samples returns the samples of the hour before now, the oldest first. Redis is asked once for each place of the ring.
func (h *history) samples(ctx context.Context, now time.Time) ([]sample, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("read the history: %w", ctx.Err())
	}
	if h.read == slotOf(now) {
		return h.all, nil
	}
	stored, err := h.client.HMGet(ctx, keyHistory, places()...).Result() // not more, whatever the hash has
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	var all []sample
	for _, value := range stored {
		var s sample
		text, found := value.(string)
		if !found || json.Unmarshal([]byte(text), &s) != nil { // another version wrote it
			continue
		}
		if at := time.Unix(s.At, 0); at.After(now.Add(-time.Hour)) && !at.After(now.Add(sampleEvery)) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.At, b.At) })
	h.read, h.all = slotOf(now), all
	return all, nil
}

// Record writes a sample every 10 s until ctx ends. A sample that can't be written is missing in the charts.
func (s *Server) Record(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if f := s.look(ctx); f.Unread(state.PartQueues) == nil && ctx.Err() == nil {
			_ = s.history.write(ctx, sampleOf(f))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
