// Package demo runs a whole fleet in one process. The provider enforces its limits and counts every violation. The
// queue is an embedded Redis, and the shared bucket is in memory. Three workers run about 400 real chat requests. The
// demo ends with a report.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/headway-go/headway/examples"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

const (
	limitName = "openai"
	// requestsPerSecond is more than the demo needs: tokens are the scarce meter, as in practice.
	requestsPerSecond = 40
	// duration is how long the demo takes, by its limit.
	duration = 38 * time.Second
	// burst is the capacity in seconds of the rate.
	burst = 4
	// patience is the timeout of a demo.
	patience = 2 * time.Minute
)

// Settings are the choices of one demo.
type Settings struct {
	// KeepEstimate makes the provider count the reserved tokens of a call, as some providers do. By default it
	// corrects its count when the call ends.
	KeepEstimate bool
	// View is the output of the live view.
	View io.Writer
	// Page gets the page of the fleet; nil means none. With a page the demo goes on until ctx ends, and Ended receives
	// the report as soon as all tasks have ended.
	Page  net.Listener
	Ended func(Report)
}

// Run runs one demo of about 40 seconds. The report is valid even if ctx ends early: other tasks count as unfinished.
func Run(ctx context.Context, s Settings) (Report, error) {
	requests, err := requests()
	if err != nil {
		return Report{}, err
	}
	limit := limitFor(requests, s.KeepEstimate)
	upstream, err := provider.Start(provider.Config{
		Requests:     provider.Quota{Rate: limit.Meters[0].Rate, Capacity: limit.Meters[0].Cap()},
		Tokens:       provider.Quota{Rate: limit.Meters[1].Rate, Capacity: limit.Meters[1].Cap()},
		KeepEstimate: s.KeepEstimate,
	})
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = upstream.Close() }()
	store := memstore.New()
	limiter, err := reservations.New(store, []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		return Report{}, err
	}
	client, err := llm.NewClient(llm.Config{BaseURL: upstream.URL(), APIKey: "demo"})
	if err != nil {
		return Report{}, err
	}
	defer client.Close()

	fmt.Fprintf(s.View, "%d chat requests, %d workers, one limit: %.0f tokens/s, at most %.0f at once\n",
		len(requests), fleetSize, bucket.Rules(limit).Meters[1].RatePerSecond(), limit.Meters[1].Cap())
	count := newTally(len(requests))
	stall, ended := stalls(ctx)
	defer ended()
	result := func() Report { return newReport(len(requests), count, upstream.Report(), limit, stall()) }
	f, err := startFleet(ctx, limiter, client, count.event)
	stopPage := func() error { return nil }
	if err == nil && s.Page != nil {
		stopPage, err = f.show(ctx, limiter, s.Page)
	}
	if err == nil {
		err = watch(ctx, s, count, store, limit, func(ctx context.Context) error {
			return enqueue(ctx, f, limiter, requests)
		})
	}
	if err == nil && s.Page != nil {
		s.Ended(result())
		<-ctx.Done()
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, stopPage(), f.stop(stop))
	report := result()
	if ctx.Err() != nil {
		report.Unfinished, report.Lost = report.Lost, 0
	}
	return report, err
}

// requests returns the tasks of the example file.
func requests() ([]tasks.Args, error) {
	var all []tasks.Args
	r := batch.NewReader(bytes.NewReader(examples.Godoc), batch.Config{})
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("examples/godoc.jsonl: %w", err)
		}
		chat, err := llm.NewCall(llm.EndpointChat, limitName, line.Body)
		if err != nil {
			return nil, fmt.Errorf("examples/godoc.jsonl: line %d: %w", line.Number, err)
		}
		chat.CustomID = line.CustomID
		all = append(all, chat)
	}
}

// limitFor returns a limit with which the requests take about as long as the demo should. The provider's tokens are
// the scarce meter. A call uses about two thirds of its reservation, so the rate is lower if the provider corrects
// its count.
func limitFor(requests []tasks.Args, keep bool) reservations.Limit {
	reserved := 0.
	for _, r := range requests {
		for _, c := range r.(tasks.Charger).Charges() {
			reserved += c.Tokens["tokens"]
		}
	}
	counted, settle := reserved*0.65, reservations.SettleAdjust
	if keep {
		counted, settle = reserved, reservations.SettleKeep
	}
	rate := counted / (duration.Seconds() + burst)
	tokens := reservations.PerSecond("tokens", rate)
	tokens.Capacity = rate * burst
	return reservations.Limit{
		Name: limitName, Settle: settle,
		Meters: []reservations.Meter{reservations.PerSecond("requests", requestsPerSecond), tokens},
	}
}

func enqueue(ctx context.Context, f *fleet, limiter *reservations.Limiter, requests []tasks.Args) error {
	s, err := scheduler.New(f.connect(), limiter, scheduler.Config{})
	if err != nil {
		return err
	}
	_, err = s.EnqueueMany(ctx, requests)
	return err
}

// watch enqueues and shows the fleet until every task has ended.
func watch(
	ctx context.Context, s Settings, count *tally, store *memstore.Store, limit reservations.Limit,
	enqueue func(context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stop := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { show(s.View, func() moment { return look(ctx, count, store, limit) }, stop) })
	err := enqueue(ctx)
	if err == nil {
		select {
		case <-count.all:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the demo was stopped before all tasks had ended: %w", ctx.Err())
	}
	close(stop)
	shown.Wait()
	return err
}

func look(ctx context.Context, count *tally, store *memstore.Store, limit reservations.Limit) moment {
	m := moment{counts: count.now(), total: count.want, level: map[string]float64{"requests": 1, "tokens": 1}}
	b, now, err := bucket.Read(ctx, store, limit.Name, "")
	if err != nil {
		return m
	}
	for _, meter := range b.Accrue(bucket.Rules(limit), now).Meters {
		m.level[meter.Name] = meter.Started / meter.Filling.Capacity
	}
	return m
}
