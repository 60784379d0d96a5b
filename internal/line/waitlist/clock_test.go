package waitlist_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// A clock that runs back must delay neither the looks nor the next process on duty. The clock of a bubble can't run
// back, so this is miniredis, whose clock stands still.
func TestTheClockRunsBack(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server.SetTime(now)
	f := fixtureOf(t, connect(t, "redis://"+server.Addr()))
	f.lease = time.Second
	f.join(entries("a", "b")...)
	f.report(waitlist.Answer{Bucket: "openai", Generation: 1, Version: 1, Store: time.Now(), State: []byte("{}")})
	f.promote(f.due(), "a")
	same(t, "due", 0, len(f.look().Due))

	server.SetTime(now.Add(-time.Second))
	same(t, "due after a second", 0, len(f.look().Due))
	server.SetTime(now.Add(-time.Hour))
	look, err := f.Look(t.Context(), duty("other"), nil)
	f.check(err)
	if !look.TookOver || len(look.Due) != 1 || len(look.Due[0].State) > 0 || look.Due[0].PromotedCount != 1 {
		t.Errorf("after an hour: %+v", look)
	}
}
