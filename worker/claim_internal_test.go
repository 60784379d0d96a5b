package worker

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

func threeClaims() claims {
	return newClaims([]reservations.Charge{
		{Limit: "tenant", Key: "a", Shard: 9}, {Limit: "model", Key: "m"}, {Limit: "provider"},
	})
}

func TestClaimsHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	late := reservations.Place{State: reservations.StateLate, Generation: 3, Shard: 2}
	reserved := reservations.Place{State: reservations.StateReserved, Generation: 4}
	cs := threeClaims()
	stood := cs.recall([]scheduler.Held{
		{Bucket: "provider", Place: reserved},
		{Bucket: "tenant#2:a", Place: late},
		{Bucket: "gone:k", Place: late}, // of a charge that the task has no more
		{Bucket: "model", Place: late},
	})
	if stood != cs[2] || cs[2].place != reserved || cs[2].charge.Shard != 0 {
		t.Errorf("the task stood in %+v", stood)
	}
	if cs[0].place != late || cs[0].charge.Bucket() != "tenant#2:a" || cs[1].place != (reservations.Place{}) {
		t.Errorf("the tenant's is %+v, the model's %+v", cs[0], cs[1])
	}
	if fresh := threeClaims(); fresh.recall(nil) != fresh[0] || fresh[0].charge.Shard != 0 {
		t.Errorf("a new task asks with %+v", fresh[0])
	}
}

func TestClaimsAfterARefusal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	cs := threeClaims()
	cs[2].place = reservations.Place{State: reservations.StateReserved, Due: at}
	var asked []string
	stopped, err := cs.admit(func(c *claim) error {
		asked = append(asked, c.charge.Limit)
		c.decided, c.latest, c.charge.Shard = at, at, 1
		c.outcome = reservations.Outcome{State: reservations.StateStarted, At: at, Hold: time.Second, Shift: time.Minute, Shard: 1, Generation: 7}
		if c == cs[1] {
			c.outcome.State, c.outcome.Hold, c.outcome.Due = reservations.StateTicket, 0, at.Add(time.Hour)
		}
		return nil
	})
	if err != nil || stopped != cs[1] || !slices.Equal(asked, []string{"tenant", "model"}) {
		t.Fatalf("asked %v, stopped by %+v, %v", asked, stopped, err)
	}
	if started := cs.started(); len(started) != 1 || started[0] != cs[0] || !cs.ready().Equal(at.Add(time.Second)) {
		t.Errorf("started %+v, ready %v", started, cs.ready())
	}
	cs.keep()
	want := []scheduler.Held{
		{Bucket: "tenant#1:a", Place: reservations.Place{State: reservations.StateLate, Due: at.Add(time.Minute + time.Second), Generation: 7, Shard: 1}},
		{Bucket: "provider", Place: reservations.Place{State: reservations.StateReserved, Due: at}},
	}
	if others := cs.others(stopped); !slices.Equal(others, want) {
		t.Errorf("kept beside are %+v, want %+v", others, want)
	}
	if stopped.place.State != reservations.StateTicket {
		t.Errorf("the task waits with %+v", stopped.place)
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
	cs.keep()
	if others := cs.others(stopped); len(others) != 1 || others[0].State != reservations.StateLate || cs[1].place != (reservations.Place{}) {
		t.Errorf("kept: %+v", others)
	}
}
