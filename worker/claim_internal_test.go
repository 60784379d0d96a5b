package worker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

func threeClaims() claims {
	return newClaims([]reservations.Charge{
		{Limit: "tenant", Key: "a", Shard: 9}, {Limit: "model", Key: "m"}, {Limit: "provider"},
	})
}

func TestClaimsAreAskedInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	cs := threeClaims()
	if cs[0].charge.Shard != 0 {
		t.Errorf("the shard of the payload counts: %+v", cs[0].charge)
	}
	var asked []string
	stopped, err := cs.admit(func(c *claim) error {
		asked = append(asked, c.charge.Limit)
		c.decided, c.latest = at, at
		c.outcome = reservations.Outcome{State: reservations.StateStarted, At: at, Hold: time.Second}
		if c == cs[1] {
			c.outcome = reservations.Outcome{State: reservations.StateWaiting, At: at, RetryAt: at.Add(time.Hour)}
		}
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"tenant", "model"}) {
		t.Fatalf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
	if started := cs.started(); len(started) != 1 || started[0] != cs[0] || !cs.ready().Equal(at.Add(time.Second)) {
		t.Errorf("started %+v, ready %v", started, cs.ready())
	}
}

func TestClaimThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	cs, down := threeClaims(), errors.New("down")
	stopped, err := cs.admit(func(c *claim) error {
		if c == cs[1] {
			return down
		}
		c.outcome.State = reservations.StateStarted
		return nil
	})
	if stopped != cs[1] || !errors.Is(err, down) || len(cs.started()) != 1 {
		t.Errorf("stopped by %+v, %v", stopped, err)
	}
}

// A start that came too late is asked for again, as that of a task that waited: what it took is lost, with its
// reservation.
func TestClaimsThatCameTooLate(t *testing.T) {
	t.Parallel()
	cs := threeClaims()
	for _, c := range cs {
		c.outcome.State = reservations.StateStarted
		c.held = &reservations.Reservation{Shard: 3, Promised: true}
		c.charge.Shard = 3
	}
	if !cs.lose(func(c *claim) bool { return c == cs[1] }) {
		t.Fatal("nothing is asked again")
	}
	if cs[0].outcome.Started() || !cs[1].outcome.Started() || cs[2].outcome.Started() {
		t.Errorf("outcomes %v, %v, %v", cs[0].outcome, cs[1].outcome, cs[2].outcome)
	}
	if want := (reservations.Reservation{Shard: 3}); *cs[0].held != want || !cs[1].held.Promised {
		t.Errorf("held %+v, %+v", cs[0].held, cs[1].held)
	}
	if cs.lose(func(*claim) bool { return true }) {
		t.Error("starts that last are asked again")
	}
}

// A task that has to wait for the provider behind other tasks takes no tokens of its tenant meanwhile.
func TestClaimBehindOtherTasksIsAskedAlone(t *testing.T) {
	t.Parallel()
	cs := threeClaims()
	cs[1].behind, cs[2].behind = true, true
	var asked []string
	stopped, err := cs.admit(func(c *claim) error {
		asked = append(asked, c.charge.Limit)
		c.outcome.State = reservations.StateReserved
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"model"}) {
		t.Errorf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
}
