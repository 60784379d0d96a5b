package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// WaitlistsMost is the most waitlists of a limit that a Reader reads.
const WaitlistsMost = 1000

// Reader reads limits, buckets and waitlists.
type Reader struct {
	Limiter   *reservations.Limiter
	Scheduler *scheduler.Scheduler
	// Source returns where a limit comes from. Nil compares nothing.
	Source func(limit string) register.Source
	// Names returns the names that people know flows by; flows without one are left out. Nil knows none.
	Names func(ctx context.Context, flows []string) map[string]string
}

// named is a limit without its buckets.
func (r Reader) named(name string) Limit {
	l := Limit{Limit: name}
	if r.Limiter != nil {
		known, _ := inside.Of(r.Limiter).Limits().For(name, "") // without one there is no goal
		l.WaitGoal = known.MaxWait
	}
	if r.Source != nil {
		from := r.Source(name)
		l.Place, l.Differs = from.Place, from.Differs
	}
	return l
}

// NameFlows adds the names that people know the flows of buckets by.
func (r Reader) NameFlows(ctx context.Context, buckets ...Bucket) {
	var flows []string
	for _, b := range buckets {
		for _, f := range b.Flows {
			flows = append(flows, f.Flow)
		}
	}
	if r.Names == nil || len(flows) == 0 {
		return
	}
	names := r.Names(ctx, flows)
	for _, b := range buckets {
		for i, f := range b.Flows {
			b.Flows[i].Name = names[f.Flow]
		}
	}
}

// Limits are the limits that a Reader found.
type Limits struct {
	Limits []Limit `json:"limits"`
}

// Limit is a limit with its buckets: the bucket that all keys share, then the buckets of keys for which tasks wait.
type Limit struct {
	Limit   string   `json:"limit"`
	Buckets []Bucket `json:"buckets"`
	// More is true if tasks wait for further buckets.
	More bool `json:"more,omitempty"`
	// Place says where the limit is, if only live workers or only headway.yaml have it. Differs are the settings that some
	// have and that do not count.
	Place   string   `json:"place,omitempty"`
	Differs []string `json:"differs,omitempty"`
	// WaitGoal is how long a task may wait until that is a problem: max_wait of the limit. Zero is an hour.
	WaitGoal time.Duration `json:"-"`
}

// Read reads one bucket ("limit:key"), one limit ("limit"), or all limits ("").
func (r Reader) Read(ctx context.Context, what string) (Limits, error) {
	var all Limits
	name, key, single := strings.Cut(what, ":")
	names := []string{name}
	if what == "" {
		names = inside.Of(r.Limiter).Limits().Names()
	}
	for _, name := range names {
		limit := r.named(name)
		var err error
		if single {
			limit.Buckets = make([]Bucket, 1)
			limit.Buckets[0], err = r.One(ctx, name, key)
		} else {
			limit, err = r.Limit(ctx, name, WaitlistsMost)
		}
		if err != nil {
			return Limits{}, err
		}
		all.Limits = append(all.Limits, limit)
	}
	return all, nil
}

// One reads one bucket and its waitlist, or the buckets and waitlists of its shards.
func (r Reader) One(ctx context.Context, limit, key string) (Bucket, error) {
	v, err := r.Limiter.View(ctx, limit, key)
	if err != nil {
		return Bucket{}, err
	}
	b := r.Bucket(v)
	for _, name := range stored(v) {
		w, err := inside.Of(r.Scheduler).Waitlist(ctx, name)
		if err != nil {
			return Bucket{}, err
		}
		b = b.With(w)
	}
	r.NameFlows(ctx, b)
	return b, nil
}

// stored returns the names of the stored buckets of a view: one for each shard of a limit with shards.
func stored(v reservations.View) []string {
	if v.Shards == nil {
		v.Shards = []reservations.View{v}
	}
	var names []string
	for _, shard := range v.Shards {
		names = append(names, reservations.BucketName{Limit: v.Limit, Key: v.Key, Shard: shard.Shard}.String())
	}
	return names
}

// Limit reads the shared bucket of a limit, and the buckets of keys for which tasks wait, of at most that many
// waitlists. A bucket that fails alone has a Fault.
func (r Reader) Limit(ctx context.Context, name string, waitlists int) (Limit, error) {
	lists, more, err := inside.Of(r.Scheduler).Waitlists(ctx, name, waitlists)
	if err != nil {
		return Limit{}, err
	}
	keys, waiting := []string{""}, map[string][]dispatcher.Waitlist{}
	for _, l := range lists {
		if waiting[l.Key] == nil && l.Key != "" {
			keys = append(keys, l.Key)
		}
		waiting[l.Key] = append(waiting[l.Key], l)
	}
	buckets, err := r.Buckets(ctx, name, keys)
	for i, b := range buckets {
		for _, l := range waiting[b.Key] {
			buckets[i] = buckets[i].With(l)
		}
	}
	r.NameFlows(ctx, buckets...)
	limit := r.named(name)
	limit.Buckets, limit.More = buckets, more
	return limit, err
}

// together is how many buckets are read at the same time.
const together = 16

// Buckets reads the buckets of a limit for these keys, without their waitlists. A bucket that fails alone has a Fault.
func (r Reader) Buckets(ctx context.Context, limit string, keys []string) ([]Bucket, error) {
	buckets := make([]Bucket, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for i, key := range keys {
		group.Go(func() error {
			v, err := r.Limiter.View(ctx, limit, key)
			buckets[i] = r.Bucket(v)
			// The other buckets can be read. Redis may have a key that no charge has.
			if errors.Is(err, bucket.ErrBucket) || errors.Is(err, reservations.ErrInvalidCharge) {
				buckets[i], err = faulty(limit, key, err), nil
			}
			return err
		})
	}
	return buckets, group.Wait()
}

// Bucket returns the bucket of a view with its override, without its waitlist.
func (r Reader) Bucket(v reservations.View) Bucket {
	b := NewBucket(v)
	b.Override = r.override(v.Limit, v.Key)
	return b
}

// override is the text of the overrides in force for a key; empty if there are none.
func (r Reader) override(limit, key string) string {
	var set []string
	for _, o := range inside.Of(r.Limiter).Limits().Overrides() {
		if o.Limit == limit && (o.Key == "" || o.Key == key) {
			set = append(set, fmt.Sprintf("%v %s, set by %s at %s", o, OverrideText(o), o.By,
				o.SetAt.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(set, "; ")
}

// OverrideText is the value of an override: a rate, or how many calls may run at once.
func OverrideText(o reservations.Override) string {
	if o.Meter == reservations.MeterInFlight {
		return fmt.Sprintf("at most %v at once", max(0, o.Capacity))
	}
	return bucket.RateText(o.Rate, o.Period)
}
