package scheduler

import (
	"testing"
	"testing/synctest"
	"time"
)

// Tasks wait longer for each other while many are sent back at once, and not for long after.
func TestACrowdIsNoticedAndForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		want := func(gathers time.Duration) {
			t.Helper()
			if got := c.gathers(); got != gathers {
				t.Errorf("gathers for %v, want %v", got, gathers)
			}
		}
		want(0)
		c.sentBack(crowdFrom - 1)
		want(0)
		c.sentBack(crowdFrom)
		want(crowdGathers)
		<-time.After(crowdKept / 2)
		c.sentBack(1)
		want(crowdGathers)
		<-time.After(crowdKept / 2)
		want(0)
	})
}
