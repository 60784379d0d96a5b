package scheduler

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// The lines of a bucket with headroom follow its answers each by its own shift.
func TestUrgentTasksHaveALineOfTheirOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		answer := func(version int64, s reservations.State, shift, express time.Duration) reservations.Outcome {
			return reservations.Outcome{
				State: s, At: bucketNow(), Generation: 7, Version: version, Headroom: true, Shift: shift, ExpressShift: express, Speed: 1,
			}
		}
		follow := func(o reservations.Outcome) {
			t.Helper()
			mustMove(t, l, movementsOf("openai", o, time.Now())...)
		}
		mustRecord(t, l, movementOf("openai", answer(1, reservations.StateReserved, 0, time.Hour), time.Now()), dueIn("ordinary", 30*time.Minute))
		mustRecord(t, l, movementOf("openai", answer(2, reservations.StateExpress, time.Hour, 0), time.Now()), dueIn("urgent", 30*time.Minute))
		same(t, "before", []string(nil), mustPop(t, l))
		follow(answer(3, reservations.StateSettled, 0, time.Hour))
		same(t, "urgent ones moved on", []string{"urgent"}, mustPop(t, l))
		mustRecord(t, l, movementOf("openai", answer(4, reservations.StateExpress, 0, -time.Hour), time.Now()), dueIn("later", -time.Minute))
		follow(answer(5, reservations.StateStarted, time.Hour, -time.Hour))
		same(t, "ordinary ones moved on, urgent ones set back", []string{"ordinary"}, mustPop(t, l))
		follow(answer(6, reservations.StateExpress, -time.Hour, 0))
		same(t, "urgent ones come", []string{"later"}, mustPop(t, l))
	})
}

func TestWithoutHeadroomThereIsOneLine(t *testing.T) {
	t.Parallel()
	o := reservations.Outcome{State: reservations.StateLate, At: time.Now(), Generation: 7, Shift: time.Second}
	if moves := movementsOf("openai", o, time.Now()); len(moves) != 1 || moves[0].line != "openai@7" || moves[0].shift != time.Second {
		t.Errorf("%+v", moves)
	}
	o.Headroom = true
	if moves := movementsOf("openai", o, time.Now()); len(moves) != 2 || moves[1].line != "openai@7!" || moves[1].shift != 0 {
		t.Errorf("%+v", moves)
	}
}
