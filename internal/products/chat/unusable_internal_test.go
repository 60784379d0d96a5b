package chat

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// The second of two equal answers that can't be used ends a task, whichever workers get them.
func TestUnusableAnswersEndATask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, unusableAnswersEndATask)
}

func unusableAnswersEndATask(t *testing.T) {
	server := memredis.Open(t)
	var log bytes.Buffer
	worker := func() *Unusable {
		return &Unusable{Redis: memredis.Connect(t, server), Log: slog.New(slog.NewTextHandler(&log, nil))}
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
