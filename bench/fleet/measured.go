package fleet

import (
	"time"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/measure"
	"github.com/headway-go/headway/bench/results"
)

// Measured is the result of a run.
type Measured struct {
	Metrics map[string]float64
	// Series are the starts in each second, by key.
	Series map[string][]int
	// Note is set if the run was cut off.
	Note string
}

// metrics are the metrics of a run, by name.
type metrics map[string]float64

func (r *run) measured() Measured {
	m := metrics{}
	if r.work.EnqueueOnly {
		r.enqueued(m)
		return Measured{Metrics: m}
	}
	r.usage(m)
	if r.work.Idle > 0 {
		idle := r.counts.idle.since(r.counts.start)
		m[results.Commands] = float64(idle.commands) / r.work.Idle.Seconds()
		m[results.Reads] = float64(idle.reads) / r.work.Idle.Seconds()
		return Measured{Metrics: m}
	}
	arrivals := r.provider.Arrivals()
	started := 0
	for _, of := range arrivals {
		started += len(of)
	}
	if r.work.Local {
		started = r.local(m)
	} else {
		r.judged(m, arrivals)
	}
	r.costs(m, started)
	if r.first.started > 0 {
		r.firstStarts(m, started)
	}
	measured := Measured{Metrics: m}
	if r.cut {
		measured.Note = "cut off after " + time.Since(r.began).Round(time.Second).String()
	}
	if r.work.Series {
		measured.Series = series(arrivals)
	}
	return measured
}

func (r *run) usage(m metrics) {
	m[results.CPU] = r.gone.CPU.Seconds()
	m[results.Peak] = float64(r.gone.Peak) / (1 << 20)
}

// local computes the figures of a run without a provider. It returns the number of starts.
func (r *run) local(m metrics) int {
	_, of, _ := r.workers.times()
	if wanted := r.work.Wanted(); len(of) > wanted {
		of = of[:wanted]
	}
	m[results.Done] = float64(len(of)) / float64(r.work.Wanted())
	if len(of) > 1 {
		span := time.Duration(of[len(of)-1] - of[0])
		m[results.Finish], m[results.Rate] = span.Seconds(), float64(len(of)-1)/span.Seconds()
	}
	return len(of)
}

// judged computes the figures of a run with a provider.
func (r *run) judged(m metrics, arrivals map[string][]measure.Arrival) {
	all := []measure.Arrival{}
	for _, of := range arrivals {
		all = append(all, of...)
	}
	for i, l := range r.work.Limits {
		of, limit := arrivals[l.Key], measure.Limit{Rate: l.Rate, Burst: l.Burst}
		m.most(results.Worst1s, measure.Worst(of, limit, time.Second))
		m.most(results.Worst10s, measure.Worst(of, limit, 10*time.Second))
		m.most(results.Over, measure.Over(of, limit))
		share := r.share(l, of)
		if i > 0 {
			m[results.ShareSlow] = share
			continue
		}
		m[results.Share] = share
		lag := measure.Lag(of, limit, r.enqueuedAt())
		m[results.LagP50], m[results.LagP99] = millis(measure.Quantile(lag, .5)), millis(measure.Quantile(lag, .99))
		lost := measure.PlacesLost(of)
		m[results.LostP99] = float64(measure.Quantile(lost, .99))
		m[results.LostMax] = float64(measure.Quantile(lost, 1))
	}
	m[results.Done] = float64(r.provider.Count(r.work.UntilKey)) / float64(r.work.Wanted())
	sorted := measure.Sorted(all)
	if r.work.UntilKey != "" {
		sorted = measure.Sorted(arrivals[r.work.UntilKey])
	}
	if len(sorted) > 0 {
		m[results.Finish] = sorted[len(sorted)-1].At.Seconds()
	}
	m[results.Gap] = measure.Gap(all).Seconds()
}

// share is the used part of the limit, while workers were up and tasks were waiting.
func (r *run) share(l contest.Limit, of []measure.Arrival) float64 {
	limit := measure.Limit{Rate: l.Rate, Burst: l.Burst}
	if !r.upAt.IsZero() { // two phases, each of which begins with a full bucket
		var before, after []measure.Arrival
		for _, a := range measure.Sorted(of) {
			if a.At < r.upAt.Sub(r.began) && a.At <= r.downAt.Sub(r.began) {
				before = append(before, a)
			} else {
				after = append(after, a)
			}
		}
		if len(before) == 0 || len(after) == 0 {
			return 0
		}
		allowed := limit.Allowed(r.downAt.Sub(r.began)-before[0].At) +
			limit.Allowed(after[len(after)-1].At-r.upAt.Sub(r.began))
		return measure.Tokens(of) / allowed
	}
	wanted := 0
	for _, t := range r.work.Tasks {
		if t.Key == l.Key {
			wanted++
		}
	}
	if len(of) < wanted && r.first.started == 0 { // tasks were left, and the run did not end by their number
		return measure.ShareUntil(of, limit, r.ended.Sub(r.began))
	}
	return measure.Share(of, limit)
}

// enqueuedAt returns the planned enqueue times of the tasks of a paced work.
func (r *run) enqueuedAt() map[int]time.Duration {
	if r.work.At == nil {
		return nil
	}
	at := make(map[int]time.Duration, len(r.work.At))
	for seq, d := range r.work.At {
		at[seq] = d
	}
	return at
}

// costs computes deliveries and round trips per start.
func (r *run) costs(m metrics, started int) {
	if started == 0 {
		return
	}
	n, span := float64(started), r.ended.Sub(r.began).Seconds()
	if r.cut {
		span = r.work.CutAfter().Seconds()
	}
	delivered, _, late := r.workers.times()
	m[results.Deliveries] = float64(len(delivered)) / n
	m[results.EnqueueS] = r.enqueueTook.Seconds()
	run := r.counts.end.since(r.counts.idle)
	if r.work.Backlog {
		enqueue := r.counts.enqueued.since(r.counts.start)
		m[results.RedisEnq] = float64(enqueue.reads) / float64(len(r.work.Tasks))
		m[results.RedisGross] = float64(run.reads)/n + m[results.RedisEnq]
		m[results.RedisTrips] = m[results.RedisGross]
	} else {
		idle := float64(r.counts.idle.since(r.counts.start).reads) / sample.Seconds()
		m[results.RedisGross] = float64(run.reads) / n
		m[results.RedisTrips] = max(0, float64(run.reads)-idle*span) / n
	}
	if sent, ran := r.sender.seen().mongo, r.workers.seen().mongo; sent+ran > 0 {
		m[results.MongoTrips] = float64(sent+ran) / n
	}
	m[results.TaskCPU] = 1000 * ((r.gone.CPU - r.cpuAtStart).Seconds() + run.cpu) / n
	if len(late) > 0 {
		m[results.LateP50], m[results.LateP99] = millis(measure.Quantile(late, .5)), millis(measure.Quantile(late, .99))
	}
}

func (m metrics) most(name string, value float64) { m[name] = max(m[name], value) }

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// series returns the starts in each second since the first.
func series(arrivals map[string][]measure.Arrival) map[string][]int {
	byKey := map[string][]int{}
	for key, of := range arrivals {
		for _, a := range of {
			second := int(a.At / time.Second)
			for len(byKey[key]) <= second {
				byKey[key] = append(byKey[key], 0)
			}
			byKey[key][second]++
		}
	}
	return byKey
}

// enqueued computes the figures of a run that only enqueues.
func (r *run) enqueued(m metrics) {
	n, enqueue := float64(len(r.work.Tasks)), r.counts.enqueued.since(r.counts.start)
	m[results.Done], m[results.Finish] = 1, r.enqueueTook.Seconds()
	m[results.Rate] = n / r.enqueueTook.Seconds()
	m[results.RedisTrips] = float64(enqueue.reads) / n
	if sent := r.sender.seen().mongo; sent > 0 {
		m[results.MongoTrips] = float64(sent) / n
	}
	m[results.TaskCPU] = r.enqueueCPU()
}

// enqueueCPU returns the CPU time of the producer and of Redis to enqueue one task, in milliseconds.
func (r *run) enqueueCPU() float64 {
	cpu := r.cpuToEnqueue.Seconds() + r.counts.enqueued.since(r.counts.start).cpu
	return 1000 * cpu / float64(len(r.work.Tasks))
}

// firstStarts computes the cost of a task in a run with First: the cost of each start, plus one task's share of the
// enqueue. It leaves out the CPU time of workers before they were ready. Started counts all starts of the run: the
// probes of workers are late, so MongoDB is counted over the whole run.
func (r *run) firstStarts(m metrics, started int) {
	n, starts := float64(len(r.work.Tasks)), float64(r.first.started)
	ran := r.first.redis.since(r.counts.enqueued)
	m[results.RedisTrips] = m[results.RedisEnq] + float64(ran.reads)/starts
	m[results.MongoTrips] = float64(r.sender.seen().mongo)/n + float64(r.workers.seen().mongo)/float64(started)
	m[results.TaskCPU] = r.enqueueCPU() + 1000*((r.first.cpu-r.cpuAtStart).Seconds()+ran.cpu)/starts
	m[results.Done] = 1 // workers start more tasks until they have stopped
	delete(m, results.RedisGross)
}
