package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/products/files"
	"github.com/headway-go/headway/internal/test/memredis"
)

// A batch is the work of one gateway until its lease ends, also if its caller cancels it.
func TestLease(t *testing.T) {
	t.Parallel()
	client := memredis.Start(t)
	w := work{in: redisdocs.New(client).Collection("gateway_work"), kick: make(chan struct{}, 1)}
	now := time.Now().Truncate(time.Millisecond)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claims := func(at time.Time) bool {
		t.Helper()
		head, ok, err := w.claim(t.Context(), "b", at)
		if must(err); ok && (head.Owner != "acme" || head.Input != "file-x") {
			t.Errorf("%+v", head)
		}
		return ok
	}
	if claims(now) {
		t.Error("work that does not exist was claimed")
	}
	must(w.add(t.Context(), "b", workHead{Owner: "acme", Input: "file-x"}, now))
	if !claims(now) || claims(now) || claims(now.Add(lease-time.Second)) {
		t.Error("not the work of one gateway")
	}
	must(w.hasten(t.Context(), "b", now))
	must(w.add(t.Context(), "b", workHead{Owner: "acme", Input: "file-x"}, now)) // a repeated request
	if claims(now.Add(time.Second)) || !claims(now.Add(lease)) {
		t.Error("the lease does not hold, or does not end")
	}
	must(w.release(t.Context(), "b", time.Hour, false))
	if claims(time.Now().Add(time.Minute)) {
		t.Error("claimed before it is due")
	}
	must(w.hasten(t.Context(), "b", now))
	if !claims(now) {
		t.Error("a cancelled batch waits")
	}
	must(w.release(t.Context(), "b", 0, true))
	if claims(now.Add(time.Hour)) {
		t.Error("ended work was claimed")
	}
}

// killed is a store of a gateway that is killed before one of its writes.
type killed struct {
	documents.Store

	left int // writes until then
}

func (k *killed) Collection(name string) documents.Collection {
	return dying{k.Store.Collection(name), k}
}

type dying struct {
	documents.Collection

	of *killed
}

func (d dying) Put(ctx context.Context, writes []documents.Write) []error {
	if d.of.left--; d.of.left < 0 {
		return slices.Repeat([]error{documents.ErrUnavailable}, len(writes))
	}
	return d.Collection.Put(ctx, writes)
}

// A gateway that is killed while it creates a batch leaves no file in use without the work that ends its use.
func TestKilledWhileItCreatesABatch(t *testing.T) {
	t.Parallel()
	store := &killed{Store: redisdocs.New(memredis.Start(t))}
	stored := files.New(store, files.InDocuments(store, nil), files.Bounds{}, nil)
	g := &Gateway{
		config:   Config{Logger: slog.New(slog.DiscardHandler)},
		batching: newBatching(&Batching{Files: stored, Records: store}),
	}
	const alive = 1000
	for writes := range 5 {
		store.left = alive
		u, err := stored.Write(t.Context(), "", strings.NewReader("x"), 1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := u.Keep(t.Context(), files.File{Purpose: files.PurposeBatch}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, f.ID)
		store.left = writes
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/batches", strings.NewReader(body))
		problem := g.createBatch(httptest.NewRecorder(), r, keys.Key{}, "")
		if store.left >= 0 {
			t.Fatalf("creating a batch takes fewer than %d writes, or another fault: %+v", writes, problem)
		}
		store.left = alive
		if err = stored.Remove(t.Context(), "", f.ID); err != nil {
			t.Fatal(err)
		}
		_, unused := stored.Read(t.Context(), f.ID)
		work, err := g.batching.work.in.ByTime(t.Context(), documents.Times{Group: workGroup, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		known := slices.ContainsFunc(work, func(d documents.Document) bool { return strings.Contains(string(d.Head), f.ID) })
		if unused == nil && !known {
			t.Errorf("killed before write %d: the file is in use, and nothing will end that", writes+1)
		}
	}
}

// A batch enters each state once, and none after its end.
func TestStates(t *testing.T) {
	t.Parallel()
	at := time.Unix(7, 0)
	j := job{State: stateValidating}
	for _, c := range []struct {
		state string
		ok    bool
	}{
		{stateInProgress, true},
		{stateInProgress, false},
		{stateCancelling, true},
		{stateInProgress, false},
		{stateFinalizing, true},
		{stateCancelling, false},
		{stateCancelled, true},
		{stateCompleted, false},
	} {
		if j.enter(c.state, at) != c.ok {
			t.Errorf("%s: %v", c.state, !c.ok)
		}
	}
	if !j.ended() || len(j.At) != 4 || j.At[stateCancelled] != 7 {
		t.Errorf("%+v", j)
	}
}
