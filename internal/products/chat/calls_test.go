package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// Embeddings and HTTP requests share the limit of chats, and the provider's counts match ours.
func TestCallsAndRequestsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, callsAndRequestsRun)
}

func callsAndRequestsRun(t *testing.T) {
	upstream := newUpstream(t, provider.Config{
		Requests: provider.Quota{Rate: 100, Capacity: 2}, MinLatency: -1, Slack: -1,
	})
	client := upstream.client(t, llm.SyncDown)
	base, err := url.Parse(upstreamURL)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := web.NewClient(web.Config{
		AllowHosts: []string{base.Host}, HTTPClient: upstream.by,
		Secrets: map[string]web.Secret{"KEY": {Value: "test", Hosts: []string{"http://" + base.Host}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requests.Close)
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 100, Period: time.Second, Capacity: 2},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue := memredis.Start(t)
	finished := make(chan worker.Event, 10)
	w, err := worker.New(queue, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler), Events: ends(finished),
	})
	if err != nil {
		t.Fatal(err)
	}
	chat.HandleAll(w, chat.Only(client), requests, nil, nil, nil, nil)
	if err = w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if stopping := w.Stop(context.WithoutCancel(t.Context())); stopping != nil {
			t.Error(stopping)
		}
	})
	call, err := llm.NewCall(llm.EndpointEmbeddings, "openai", json.RawMessage(`{"model":"m","input":"hi"}`), "requests")
	if err != nil {
		t.Fatal(err)
	}
	request := web.Request{
		Method: "POST", URL: upstreamURL + "/tick", Header: map[string]string{"Authorization": "Bearer ${KEY}"},
		Body:  []byte(`{"id":"1"}`),
		Terms: tasks.Terms{Taken: []reservations.Charge{{Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}}},
	}
	all := []tasks.Args{call, request, call, request, call, request}
	if _, err := w.Scheduler().EnqueueMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for range all {
		if f := <-finished; f.Kind != worker.KindSucceeded {
			t.Errorf("%+v", f)
		}
	}
	if r := upstream.Report(); r.Accepted != 6 || r.Violations != 0 {
		t.Errorf("%+v", r)
	}
}

// A worker learns while it runs. Reservations approach the usage, even if all tasks were enqueued before the first
// estimate.
func TestAWorkerLearns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, aWorkerLearns)
}

func aWorkerLearns(t *testing.T) {
	upstream := newUpstream(t, provider.Config{
		Tokens: provider.Quota{Rate: 100_000, Capacity: 20_000}, CountUsed: true, MinLatency: 5 * time.Millisecond,
		MaxLatency: 20 * time.Millisecond, Slack: -1,
	})
	client := upstream.client(t, llm.SyncOff)
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			{Name: "tokens", Rate: 100_000, Period: time.Second, Capacity: 20_000},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	learner, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	queue := memredis.Start(t)
	const requests = 600
	finished := make(chan worker.Event, requests)
	w, err := worker.New(queue, limiter, worker.Config{
		Concurrency: 100, Logger: slog.New(slog.DiscardHandler),
		Events: ends(finished),
	})
	if err != nil {
		t.Fatal(err)
	}
	chat.HandleCalls(w, chat.Only(client), nil, &chat.Learning{Learner: learner, Limits: []string{"openai"}}, nil,
		nil)
	if err = w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if stopping := w.Stop(context.WithoutCancel(t.Context())); stopping != nil {
			t.Error(stopping)
		}
	})
	all := make([]tasks.Args, requests)
	for i := range all {
		all[i], err = llm.NewCall(llm.EndpointChat, "openai", fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user",`+
			`"content":"%d"}],"max_tokens":%d}`, i, 500+i), "tokens")
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Scheduler().EnqueueMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for range all {
		if f := <-finished; f.Kind != worker.KindSucceeded {
			t.Errorf("%+v", f)
		}
	}
	if r := upstream.Report(); r.Accepted != requests || r.Violations != 0 {
		t.Errorf("accepted %d, violations %d", r.Accepted, r.Violations)
	}
	known := learner.Learned()
	if len(known) != 1 || known[0].N < 250 {
		t.Fatalf("%+v", known)
	}
	off := known[0].Reserved/known[0].Used - 1
	t.Logf("of the last %d requests: reserved to used %+.1f %%, one by one p10 %.2f p50 %.2f p90 %.2f", known[0].N,
		100*off, known[0].ErrorP10, known[0].ErrorP50, known[0].ErrorP90)
	if math.Abs(off) > 0.1 {
		t.Errorf("reserved %v, used %v", known[0].Reserved, known[0].Used)
	}
}

// A request of a batch is written as its original line.
func TestRequestsOfABatchAreFoundInTheirPayloads(t *testing.T) {
	t.Parallel()
	ref := batchref.Ref{Batch: "b", Line: 7}
	for _, c := range []struct {
		args tasks.Args
		want record.Request
		line string
	}{
		{
			llm.Call{
				Endpoint: llm.EndpointEmbeddings, Terms: tasks.Terms{CustomID: "a", Batch: (*tasks.BatchRef)(&ref)},
				Request: []byte(`{"model":"m","input":"<"}`),
			},
			record.Request{
				Ref: ref, Model: "m", Line: batch.Line{
					CustomID: "a", Method: "POST", URL: "/v1/embeddings", Body: []byte(`{"model":"m","input":"<"}`),
				},
			},
			`{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"<"}}`,
		},
		{
			web.Request{
				Method: "GET", URL: "https://api.example/?a&b", Header: map[string]string{"X-A": "${B}"}, Terms: tasks.Terms{
					CustomID: "a", Batch: (*tasks.BatchRef)(&ref),
					Taken: []reservations.Charge{
						{Limit: "tenant", Tokens: reservations.Tokens{"pages": 3, "requests": 2}},
						{Limit: "api", Tokens: reservations.Tokens{"requests": 2}},
					},
				},
			},
			record.Request{
				Ref: ref, Line: batch.Line{
					CustomID: "a", Method: "GET", URL: "https://api.example/?a&b", Headers: map[string]string{"X-A": "${B}"},
					Charge: map[string]float64{"requests": 2, "pages": 3},
				},
			},
			`{"custom_id":"a","method":"GET","url":"https://api.example/?a&b","headers":{"X-A":"${B}"},"charge":{"pages":3,` +
				`"requests":2}}`,
		},
	} {
		e, err := envelope.Encode(c.args)
		if err != nil || e.Options.ID != "b-7-0" {
			t.Fatalf("%+v, %v", e.Options, err)
		}
		got, ok := chat.Request(c.args.TaskType(), e.Task.Payload())
		if diff := cmp.Diff(c.want, got); !ok || diff != "" {
			t.Error(diff)
		}
		if string(got.JSON()) != c.line {
			t.Errorf("got %s", got.JSON())
		}
	}
	for _, args := range []tasks.Args{llm.Call{}, web.Request{}} {
		text, err := json.Marshal(args)
		if _, ok := chat.Request(args.TaskType(), text); ok || err != nil {
			t.Errorf("%T of no batch: %v", args, err)
		}
	}
}

// ends are hooks that send the ends of tasks.
func ends(to chan<- worker.Event) []func(worker.Event) {
	return []func(worker.Event){func(e worker.Event) {
		if e.Ended() {
			to <- e
		}
	}}
}
