package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/batchref"
)

// A rate above the limit while the bucket empties does not read like a violation.
func TestBurstIsNamed(t *testing.T) {
	t.Parallel()
	for taken, want := range map[float64]string{
		2925: "; 2925 requests/m: the limit's 500/m and a saved burst;",
		501:  "; 501 requests/m: the limit's 500/m and a saved burst;",
		500:  "; 500 of 500 requests/m;", 20: "; 20 of 500 requests/m;",
	} {
		f := figures{
			Progress: batches.Progress{Batch: batches.Batch{Requests: 3000}, Counts: batches.Counts{Done: 591}},
			Waiting:  2409, measured: true,
			Rates: []rate{{Meter: "requests", Taken: taken, Allowed: 500, Period: 60}},
		}
		if text := f.text(); !strings.Contains(text, want) {
			t.Errorf("%v of 500: %s, want %q", taken, text, want)
		}
	}
}

// A batch without waiting requests has ended, and the rest of a cancelled batch does not wait.
func TestStateOfABatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state       batches.State
		done        int
		want, words string
	}{
		{batches.StateOpen, 1, "open", "1 of 3 done, 0 failed, 2 waiting"},
		{batches.StateOpen, 3, "ended", "3 of 3 done, 0 failed, 0 waiting; all have ended"},
		{
			batches.StateCancelled, 1, "cancelled",
			"1 of 3 done, 0 failed, 2 cancelled; 2 of the cancelled may still be in the queue (`headway cancel b` " +
				"deletes them); cancelled",
		},
		{batches.StateCancelled, 3, "cancelled", "3 of 3 done, 0 failed, 0 cancelled; cancelled"},
	} {
		f := newFigures(batches.Progress{
			Batch:  batches.Batch{ID: "b", State: c.state, Requests: 3},
			Counts: batches.Counts{Done: c.done},
		})
		if string(f.State) != c.want || !strings.HasPrefix(f.text(), c.words) {
			t.Errorf("%s with %d done: %s: %s", c.state, c.done, f.State, f.text())
		}
	}
}

// Commands that people copy have one word for each name: a tenant chooses its own.
func TestResend(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]batches.Batch{
		"headway batch in.jsonl --limit openai": {Name: "in.jsonl", Limit: "openai"},
		"headway batch - --limit openai --queue bulk": {
			Name: "standard input", Limit: "openai", Queue: "bulk",
		},
		"headway batch 'my file.jsonl' --limit 'tenants:$(reboot)' --limit openai": {
			Name: "my file.jsonl", Limit: "tenants:$(reboot), openai",
		},
	} {
		f := newFigures(batches.Progress{Batch: b})
		if got := f.resend(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Models without a price have the same order each time.
func TestModelsWithoutAPrice(t *testing.T) {
	t.Parallel()
	want := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	models := map[string]batches.Usage{}
	for _, model := range want {
		models[model] = batches.Usage{Prompt: 1}
	}
	f := newFigures(batches.Progress{Models: models})
	if f.price(map[string]config.Price{"z": {}}); !slices.Equal(f.Unpriced, want) {
		t.Errorf("%q, want %q", f.Unpriced, want)
	}
}

// A limit that its provider has stopped is the end that the table of batches shows.
func TestAStoppedLimitIsTheEnd(t *testing.T) {
	t.Parallel()
	left := 18.
	f := newFigures(batches.Progress{Batch: batches.Batch{
		Limit: "tenants:a, openai", State: batches.StateOpen, Requests: 5, Lines: 5, Enqueued: 5,
	}})
	f.Stopped, f.Blocked, f.Left, f.LeftBy = "the provider does not accept the key", 18, &left, byLimit
	f.bucket, f.bucketFor = cause.Stopped("openai", "key"), 2*time.Hour
	const want = "limit openai has stopped, because the provider does not accept the key, for 2h0m now; it is asked " +
		"again in 18s; set the key, and restart the workers; `headway limits unblock openai` asks at once"
	if text, short := f.end(); text != want || short != "stopped" {
		t.Errorf("%q, %q", text, short)
	}
	if text := f.text(); strings.Count(text, "has stopped") != 1 {
		t.Error(text)
	}
}

// A time that no clock can show is long, and not a second.
func TestLeftText(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "1s", 59.6: "1m0s", 3725: "1h2m", 8.64e10: leftText(longest)} {
		if got := leftText(seconds); got != want {
			t.Errorf("%v s: %s, want %s", seconds, got, want)
		}
	}
}

// Programs read these fields of each batch, whatever its state.
func TestFieldsOfABatch(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(newFigures(batches.Progress{Models: map[string]batches.Usage{"m": {}}}))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err = json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"batch", "cancelled", "completion_tokens", "created", "done", "enqueued_to_line", "failed", "limit", "name",
		"prompt_tokens", "requests", "retried", "state", "tokens_reserved", "tokens_used", "waiting",
	}
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Running tasks are read once for each queue, however many batches of it were cancelled. A failed read is tried again.
func TestRunningTasksAreReadOnce(t *testing.T) {
	t.Parallel()
	var reads []string
	running := oncePerQueue(func(_ context.Context, queue string) (map[string][]batchref.Ref, error) {
		if reads = append(reads, queue); len(reads) == 1 {
			return nil, errors.New("away")
		}
		return map[string][]batchref.Ref{"b": {{Batch: "b", Line: 1}}}, nil
	})
	for i, queue := range []string{"default", "default", "bulk", "default", "bulk"} {
		refs, err := running(t.Context(), queue)
		if (err == nil) != (i > 0) || len(refs["b"]) != min(i, 1) {
			t.Errorf("%d: %v, %v", i, refs, err)
		}
	}
	if want := []string{"default", "default", "bulk"}; !slices.Equal(reads, want) {
		t.Errorf("%q, want %q", reads, want)
	}
}
