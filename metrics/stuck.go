package metrics

import (
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/state/metric"
)

// stuckMost bounds the causes that a scrape names: the worst. Others add up as other.
const stuckMost = 50

// stuck is a cause as the labels of its series.
type stuck struct{ kind, severity, cause, remedy string }

// stuckMetrics shows what does not go on, in the words of the page and of `headway status`. Keys and queues without a
// label of their own are other. The caller holds the lock.
func (f *fleet) stuckMetrics(now time.Time) (all []prometheus.Metric) {
	tasks := map[stuck]int{}
	for _, p := range state.Problems(f.snapshot(now)) {
		if p.Severity == state.News {
			continue
		}
		series := stuck{string(p.Kind), string(p.Severity), text(p.Text), text(p.Remedy)}
		if p.Queue != "" && f.m.queues.of(p.Queue) == other {
			series.cause, series.remedy = other, other
		}
		if _, named := tasks[series]; !named && len(tasks) >= stuckMost {
			series.cause, series.remedy = other, other
		}
		tasks[series] += p.Tasks
	}
	for s, n := range tasks {
		all = append(all, f.gauge(metric.Stuck, float64(n), s.kind, s.severity, s.cause, s.remedy))
	}
	return all
}

// text is a sentence as a label: names in it may be long, and no UTF-8.
func text(sentence string) string {
	if len(sentence) > labelMost || !utf8.ValidString(sentence) {
		return other
	}
	return sentence
}

// snapshot is the state of the fleet as of the last reads, with labels in place of keys. What could not be
// read for a time is left out.
func (f *fleet) snapshot(now time.Time) (s state.Snapshot) {
	var lists map[string][]dispatcher.Waitlist
	var buckets []state.Bucket
	if p := f.parts[serviceRedis]; p.fresh(now, f.m.config.Stale) {
		s, lists = f.shared, f.lists
	}
	if p := f.parts[serviceBuckets]; p.fresh(now, f.m.config.Stale) {
		buckets = f.buckets
	}
	if p := f.parts[serviceRecords]; p.fresh(now, f.m.config.Stale) {
		s.Batches = f.batches
	}
	for name, part := range map[string]state.Part{
		serviceRedis: state.PartQueues, serviceBuckets: state.PartLimits, serviceRecords: state.PartBatches,
	} {
		if p := f.parts[name]; p != nil && p.ended() && p.answers(now) != nil {
			s.Faults = append(s.Faults, state.Fault{Part: part, Err: p.answers(now)})
		}
	}
	limits := map[string][]state.Bucket{}
	seen := map[string]bool{}
	for _, b := range buckets {
		limits[b.Limit] = append(limits[b.Limit], f.labelled(f.listed(b)))
		seen[bucket.Name(b.Limit, b.Key)] = true
	}
	for limit, lists := range lists {
		for _, l := range lists { // of buckets that were not read
			if name := bucket.Name(limit, l.Key); !seen[name] {
				b := state.Bucket{Bucket: name, Limit: limit, Key: l.Key}
				limits[limit] = append(limits[limit], f.labelled(f.listed(b)))
				seen[name] = true
			}
		}
	}
	for limit, buckets := range limits {
		s.Limits = append(s.Limits, state.Limit{Limit: limit, Buckets: buckets, WaitGoal: f.goal(limit)})
	}
	return s
}

// labelled is a bucket with the label of its key.
func (f *fleet) labelled(b state.Bucket) state.Bucket {
	b.Key = f.m.keys.label(b.Limit, b.Key)
	b.Bucket = bucket.Name(b.Limit, b.Key)
	return b
}

// listed is a bucket with its waitlists. The caller holds the lock.
func (f *fleet) listed(b state.Bucket) state.Bucket {
	for _, l := range f.lists[b.Limit] {
		if l.Key == b.Key {
			b = b.With(l)
		}
	}
	return b
}

// goal is how long a task of the limit may wait.
func (f *fleet) goal(limit string) time.Duration {
	if known, err := inside.Of(f.reader.Limiter).Limits().For(limit, ""); err == nil && known.MaxWait > 0 {
		return known.MaxWait
	}
	return f.m.config.WaitGoal
}
