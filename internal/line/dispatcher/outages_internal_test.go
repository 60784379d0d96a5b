package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
)

// A question to the store may stay without an answer while a later one has one. That begins no outage and leaves no
// pause, also if the task is sent back late.
func TestLateFailureBeginsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		list := waitlist.New(memredis.Serve(t).Client(t))
		o := &outages{shared: &shared{log: slog.New(slog.NewTextHandler(&log, nil)), list: list}}
		ctx, down := t.Context(), errors.New("no answer")
		slow, quick := reservations.Charge{Limit: "slow"}, reservations.Charge{Limit: "quick"}
		asked, answer := make(chan struct{}), make(chan error)
		failed := make(chan error)
		go func() {
			failed <- o.Ask(ctx, ctx, slow, func(context.Context) error { close(asked); return <-answer })
		}()
		<-asked
		<-time.After(time.Millisecond)
		ask := func(c reservations.Charge, answer error) error {
			return o.Ask(ctx, ctx, c, func(context.Context) error { return answer })
		}
		away := ask(quick, down)
		if !errors.Is(away, down) {
			t.Fatal(away)
		}
		if o.fail(ctx, quick.Bucket(), away) < pauseShortest {
			t.Error("a store that is away has no pause")
		}
		if err := ask(quick, nil); err != nil {
			t.Fatal(err)
		}
		answer <- down
		late := <-failed
		if !errors.Is(late, down) {
			t.Fatal(late)
		}
		if pause := o.fail(ctx, slow.Bucket(), late); pause != 0 {
			t.Errorf("a pause of %v after the end of the outage", pause)
		}
		o.background.Wait()
		if n := strings.Count(log.String(), "does not answer"); n != 1 {
			t.Errorf("%d warnings of one outage:\n%s", n, log.String())
		}
		if _, began, err := list.Fail(ctx, slow.Bucket().String(), waitlist.Failure{Away: true}); err != nil || !began {
			t.Errorf("the late failure of the bucket goes on: began %v, %v", began, err)
		}
		if pause := o.fail(ctx, slow.Bucket(), down); pause < pauseShortest {
			t.Errorf("a pause of %v in a new outage", pause)
		}
		if n := strings.Count(log.String(), "does not answer"); n != 2 {
			t.Errorf("%d warnings of two outages:\n%s", n, log.String())
		}
	})
}
