package reservations

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func threeClaims() Claims {
	return newClaims([]Charge{
		{Limit: "tenant", Key: "a", Shard: 9}, {Limit: "model", Key: "m"}, {Limit: "provider"},
	})
}

func TestClaimsAreAskedInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	cs := threeClaims()
	if cs[0].Charge.Shard != 0 {
		t.Errorf("the shard of the payload counts: %+v", cs[0].Charge)
	}
	var asked []string
	stopped, err := admit(cs, func(c *Claim) error {
		asked = append(asked, c.Charge.Limit)
		c.Decided, c.Ready = at, at.Add(time.Second)
		c.Outcome = Outcome{State: StateStarted, At: at, Hold: time.Second}
		if c == cs[1] {
			c.Outcome = Outcome{State: StateWaiting, At: at, RetryAt: at.Add(time.Hour)}
		}
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"tenant", "model"}) {
		t.Fatalf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
	if all := cs.Started(); len(all) != 1 || all[0] != cs[0] || !cs.Ready().Equal(at.Add(time.Second)) {
		t.Errorf("started %+v, ready %v", all, cs.Ready())
	}
}

func TestClaimThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	cs, down := threeClaims(), errors.New("down")
	stopped, err := admit(cs, func(c *Claim) error {
		if c == cs[1] {
			return down
		}
		c.Outcome.State = StateStarted
		return nil
	})
	if stopped != cs[1] || !errors.Is(err, down) || len(cs.Started()) != 1 {
		t.Errorf("stopped by %+v, %v", stopped, err)
	}
}

// A start that came too late is asked for again, as that of a task that waited: what it took is lost, with its
// reservation.
func TestClaimsThatCameTooLate(t *testing.T) {
	t.Parallel()
	cs := threeClaims()
	for _, c := range cs {
		c.Outcome.State = StateStarted
		c.Charge.Shard, c.Charge.Held = 3, StateReserved
	}
	if !lose(cs, func(c *Claim) bool { return c == cs[1] }) {
		t.Fatal("nothing is asked again")
	}
	if cs[0].Outcome.Started() || !cs[1].Outcome.Started() || cs[2].Outcome.Started() {
		t.Errorf("outcomes %v, %v, %v", cs[0].Outcome, cs[1].Outcome, cs[2].Outcome)
	}
	if cs[0].Charge.Held != StateWaiting || cs[1].Charge.Held != StateReserved {
		t.Errorf("held %+v, %+v", cs[0].Charge, cs[1].Charge)
	}
	if lose(cs, func(*Claim) bool { return true }) {
		t.Error("starts that last are asked again")
	}
}

// A task that has to wait for the provider behind other tasks takes no tokens of its tenant meanwhile.
func TestClaimBehindOtherTasksIsAskedAlone(t *testing.T) {
	t.Parallel()
	cs := threeClaims()
	cs[1].Behind, cs[2].Behind = true, true
	var asked []string
	stopped, err := admit(cs, func(c *Claim) error {
		asked = append(asked, c.Charge.Limit)
		c.Outcome.State = StateReserved
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"model"}) {
		t.Errorf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
}
