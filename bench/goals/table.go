package goals

import (
	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/measure"
	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

const (
	percent = "%.1f %%"
	ours    = works.Headway
)

// all returns the table of goals.
func all() []goal {
	windows := []string{results.Worst1s, results.Worst10s}
	return []goal{
		least("a", "limit used >= 99.5 %", median("burst", results.Share), .995),
		least("b", "limit used >= 99.5 %", median("slow", results.Share), .995),
		{
			work: "a, b", text: "no window above the limit (the worst 1 s and 10 s of all runs)", bound: 1,
			value: worst([]string{"burst", "slow"}, []string{ours}, windows), format: percent, scale: 100,
		},
		most("m", "the 800 fast tasks finish within 8.5 s", "%.2f s", median("mixed", results.Finish), 8.5),
		most("a", "deliveries a task exactly 1.0", "%.3f", median("burst", results.Deliveries), 1.0005),
		most("a", "round trips to Redis a task <= 4", "%.2f", median("burst", results.RedisTrips), 4),
		most("a", "round trips to MongoDB a task <= 1.1", "%.2f", median("burst", results.MongoTrips), 1.1),
		least("r", "limit used >= 95 %, in tokens really used", median("overestimated", results.Share), .95),
		most("a", "lateness p99 <= 50 ms", "%.1f ms", median("burst", results.LateP99), 50),
		most("d", "cost of a task (CPU of producer, workers and Redis), backlog of 100 000 against 1000: <= 1.2 times",
			"%.2f times", backlogs(results.TaskCPU), 1.2),
		most("d", "the same in round trips to Redis", "%.2f times", backlogs(results.RedisTrips), 1.2),
		least("f", "throughput without a limit >= 95 % of raw asynq", ratio("unlimited", ours, works.Raw, results.Rate), .95),
		least("s", "enqueueing 20 000 limited tasks, each with its place >= 20 % of the rate at which raw asynq enqueues "+
			"empty ones", ratio("placing", ours, works.Raw, results.Rate), .2),
		{
			work: "g", text: "one bucket, 64 callers >= 20 times the same store called one by one", least: true, bound: 20,
			value: combined, format: "%.1f times",
		},
		{
			work: "e", text: "no window above the limit (the worst 1 s and 10 s of all runs)", bound: 1,
			value: worst([]string{"outage"}, []string{ours}, windows), format: percent, scale: 100,
		},
		least("e", "limit used while workers are up >= 97 %", median("outage", results.Share), .97),
		most("h", "commands a second above raw asynq with the same poll settings <= 5", "%.1f", above, 5),
	}
}

func least(work, text string, value func(*results.File) (float64, int), bound float64) goal {
	return goal{work: work, text: text, value: value, least: true, bound: bound, format: percent, scale: 100}
}

func most(work, text, format string, value func(*results.File) (float64, int), bound float64) goal {
	return goal{work: work, text: text, value: value, bound: bound, format: format}
}

// backlogs returns the metric with 100 000 tasks divided by the metric with 1000, within each repetition.
func backlogs(metric string) func(*results.File) (float64, int) {
	return func(f *results.File) (float64, int) {
		large, small := f.Values("backlog-100000", ours, metric), f.Values("backlog-1000", ours, metric)
		return ratios(large, small)
	}
}

// combined returns the rate of 64 callers divided by the rate of one caller of the store itself.
func combined(f *results.File) (float64, int) {
	return ratios(
		f.Values("reservations", library.Headway, library.Metric(1, 64)),
		f.Values("reservations", library.OneByOne, library.Metric(1, 1)),
	)
}

// above returns how many commands a second an idle fleet sends above raw asynq.
func above(f *results.File) (float64, int) {
	own, theirs := f.Values("idle", ours, results.Commands), f.Values("idle", works.Raw, results.Commands)
	n := min(len(own), len(theirs))
	more := make([]float64, n)
	for i := range more {
		more[i] = own[i] - theirs[i]
	}
	return measure.Median(more), n
}

func ratios(over, under []float64) (float64, int) {
	n := min(len(over), len(under))
	list := make([]float64, n)
	for i := range list {
		list[i] = over[i] / under[i]
	}
	return measure.Median(list), n
}
