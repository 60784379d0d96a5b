package chat

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// The second of two equal answers that can't be used ends a task, whichever workers get them.
func TestUnusableAnswersEndATask(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var log bytes.Buffer
	worker := func() *Unusable {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
		t.Cleanup(func() { _ = client.Close() })
		return &Unusable{Redis: client, Log: slog.New(slog.NewTextHandler(&log, nil))}
	}
	page, events := &llm.Error{StatusCode: 200, Unusable: "page"}, &llm.Error{StatusCode: 200, Unusable: "events"}
	limited := &llm.Error{StatusCode: 429}
	one, other := worker(), worker()
	for i, c := range []struct {
		by    *Unusable
		id    string
		err   error
		final bool
	}{
		{one, "a", page, false},
		{one, "b", page, false},
		{other, "a", limited, false},
		{other, "a", page, true},
		{other, "a", page, false}, // sent again
		{one, "a", page, true},
		{one, "b", events, false},
		{one, "b", page, false},
		{nil, "b", page, false},
	} {
		err := c.by.after(t.Context(), "default", c.id, c.err)
		if !errors.Is(err, c.err) || errors.Is(err, tasks.ErrPermanent) != c.final {
			t.Errorf("%d: %v, want an end: %v", i, err, c.final)
		}
	}
	server.Close()
	if err := one.after(t.Context(), "default", "b", page); errors.Is(err, tasks.ErrPermanent) ||
		!strings.Contains(log.String(), "task=b") {
		t.Errorf("without Redis: %v, %s", err, &log)
	}
}
