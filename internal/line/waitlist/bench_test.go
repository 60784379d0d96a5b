package waitlist_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/testenv"
)

// backlog is the number of waiting tasks in the benchmarks of a long waitlist.
const backlog = 1_000_000

func benchmarked(b *testing.B) fixture {
	b.Helper()
	options, err := redis.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	b.Cleanup(func() { _ = client.Close() })
	return fixture{Waitlist: waitlist.New(client), client: client}
}

// realistic has names, flows and texts of usual lengths.
func realistic(i int) waitlist.Entry {
	return waitlist.Entry{
		Task:   waitlist.Task{Queue: "default", ID: fmt.Sprintf("0190c2f4-6d3a-7c1e-9b5a-%012d", i)},
		Bucket: "openai:org-1234567890", Reserved: i%2 == 0,
		Turns:  class.Turns{Tenant: "tenant-" + strconv.Itoa(i%100), Part: 0.02, Cost: 0.02},
		Tokens: map[string]float64{"requests": 1, "tokens": 1500}, Keep: time.Hour,
		Info: []byte(`{"limit":"openai","key":"org-1234567890","since":"2026-01-01T00:00:00Z"}`),
	}
}

func (f fixture) fill(b *testing.B, from, to int) {
	b.Helper()
	for ; from < to; from += 128 {
		var some []waitlist.Entry
		for i := from; i < min(to, from+128); i++ {
			some = append(some, realistic(i))
		}
		if _, err := f.Join(b.Context(), waitlist.Reported{}, some...); err != nil {
			b.Fatal(err)
		}
	}
}

// used is the memory of Redis in bytes.
func (f fixture) used(b *testing.B) float64 {
	b.Helper()
	return f.info(b, "memory", "used_memory")
}

// busy is the time that the CPU spent in Redis so far, in microseconds. Other processes hardly change it.
func (f fixture) busy(b *testing.B) float64 {
	b.Helper()
	return 1e6 * (f.info(b, "cpu", "used_cpu_user") + f.info(b, "cpu", "used_cpu_sys"))
}

func (f fixture) info(b *testing.B, section, field string) float64 {
	b.Helper()
	_, after, _ := strings.Cut(f.client.Info(b.Context(), section).Val(), "\r\n"+field+":")
	line, _, _ := strings.Cut(after, "\r\n")
	n, err := strconv.ParseFloat(line, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkJoin joins tasks in chunks of 128. An operation is one task.
func BenchmarkJoin(b *testing.B) {
	f := benchmarked(b)
	before := f.used(b)
	b.ResetTimer()
	f.fill(b, 0, b.N)
	b.StopTimer()
	b.ReportMetric((f.used(b)-before)/float64(b.N), "B-of-Redis/op")
}

// BenchmarkJoinAlone joins one task per call, as workers do.
func BenchmarkJoinAlone(b *testing.B) {
	f := benchmarked(b)
	b.ResetTimer()
	for i := range b.N {
		f.fill(b, i, i+1)
	}
}

// BenchmarkBacklog measures beside a million waiting tasks.
func BenchmarkBacklog(b *testing.B) {
	f := benchmarked(b)
	before := f.used(b)
	f.fill(b, 0, backlog)
	each := (f.used(b) - before) / backlog
	b.Run("memory", func(b *testing.B) { b.ReportMetric(each, "B-of-Redis/task") })
	b.Run("dispatch", func(b *testing.B) { // an operation is one task; 100 at a time are promoted and begin
		before := f.busy(b)
		for done := 0; done < b.N; {
			done += f.round(b.Context(), b, min(100, b.N-done))
		}
		b.ReportMetric((f.busy(b)-before)/float64(b.N), "us-of-Redis/op")
	})
	b.Run("join", func(b *testing.B) { f.fill(b, backlog, backlog+b.N) })
	b.Run("arrive", func(b *testing.B) { // one waiting task and one new task
		arrivals := []waitlist.Arrival{
			{Task: realistic(backlog / 2).Task, Buckets: []string{"openai:org-1234567890"}},
			{Task: task("stranger"), Buckets: []string{"openai:org-1234567890"}},
		}
		for range b.N {
			if _, err := f.Arrive(b.Context(), arrivals); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("position", func(b *testing.B) {
		for range b.N {
			if _, err := f.Position(b.Context(), realistic(backlog/2).Task); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// round looks, promotes some tasks and reports that they began.
func (f fixture) round(ctx context.Context, b *testing.B, most int) int {
	b.Helper()
	look, err := f.Look(ctx, duty("me"), nil)
	if err != nil || len(look.Due) == 0 {
		b.Fatal("no bucket is due: ", err)
	}
	due := look.Due[0]
	plan := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned, Next: time.Minute}
	for _, h := range due.Heads[:min(most, len(due.Heads))] {
		plan.Promote = append(plan.Promote, h.Task)
	}
	promoted, _, err := f.Promote(ctx, "me", []waitlist.Plan{plan})
	if err != nil {
		b.Fatal(err)
	}
	answer := waitlist.Answer{Bucket: due.Bucket, Sooner: true, State: make([]byte, 200)}
	if err := f.Report(ctx, waitlist.Reported{Answers: []waitlist.Answer{answer}, Begun: promoted}); err != nil {
		b.Fatal(err)
	}
	return len(promoted)
}
