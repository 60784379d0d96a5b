package reservations

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

func threeClaims() claims {
	return newClaims([]Charge{
		{Limit: "tenant", Key: "a", answered: answered{Shard: 9}}, {Limit: "model", Key: "m"}, {Limit: "provider"},
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
	stopped, err := admit(cs, func(c *claim) error {
		asked = append(asked, c.Charge.Limit)
		c.Decided, c.Ready = at, at.Add(time.Second)
		c.Outcome = Outcome{State: bucket.StateStarted, At: at, Hold: time.Second}
		if c == cs[1] {
			c.Outcome = Outcome{State: bucket.StateWaiting, At: at, RetryAt: at.Add(time.Hour)}
		}
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"tenant", "model"}) {
		t.Fatalf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
	if all := cs.started(); len(all) != 1 || all[0] != cs[0] || !cs.ready().Equal(at.Add(time.Second)) {
		t.Errorf("started %+v, ready %v", all, cs.ready())
	}
}

func TestClaimThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	cs, down := threeClaims(), errors.New("down")
	stopped, err := admit(cs, func(c *claim) error {
		if c == cs[1] {
			return down
		}
		c.Outcome.State = bucket.StateStarted
		return nil
	})
	if stopped != cs[1] || !errors.Is(err, down) || len(cs.started()) != 1 {
		t.Errorf("stopped by %+v, %v", stopped, err)
	}
}

// A task that has to wait for the provider behind other tasks takes no tokens of its tenant meanwhile.
func TestClaimBehindOtherTasksIsAskedAlone(t *testing.T) {
	t.Parallel()
	cs := threeClaims()
	cs[1].Behind, cs[2].Behind = true, true
	var asked []string
	stopped, err := admit(cs, func(c *claim) error {
		asked = append(asked, c.Charge.Limit)
		c.Outcome.State = bucket.StateReserved
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"model"}) {
		t.Errorf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
}
