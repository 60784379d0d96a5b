package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	unservedText = "no worker of the fleet could serve the task for %v"
	// returnPauseMin is how long a task that was just returned waits for its next delivery: then as long as it was
	// returned so far, up to register.ReturnPauseMost. A worker that can serve it wakes it at once.
	returnPauseMin = time.Second
	// warnEvery is how often a worker logs a need that it can't serve.
	warnEvery = time.Minute
)

// needIn returns what a task needs that this worker lacks and another worker may have.
func needIn(d *delivery, err error) (need register.Need, ok bool) {
	charge, isCharge := errors.AsType[*reservations.ChargeError](err)
	switch {
	case errors.Is(err, errUnknownType):
		return register.Need{Type: d.task.Type()}, true
	case isCharge && errors.Is(err, reservations.ErrUnknownLimit):
		return register.Need{Limit: charge.Charge.Limit}, true
	case isCharge && errors.Is(err, reservations.ErrMeterLeftOut):
		return register.Need{Limit: charge.Charge.Limit, Meter: charge.Meter, Without: true}, true
	case isCharge && errors.Is(err, reservations.ErrUnknownMeter):
		return register.Need{Limit: charge.Charge.Limit, Meter: charge.Meter}, true
	}
	return register.Need{}, false
}

// unable ends a delivery whose task can't run on this worker. A task that another worker may serve waits, with no retry
// used, until such a worker takes it. It is archived only once no live worker can serve it and workers have returned it
// for Config.Unserved.
func (g *guard) unable(ctx context.Context, d *delivery, cause error) error {
	need, ok := needIn(d, cause)
	if !ok {
		return g.refuse(ctx, d, cause)
	}
	soon, cancel := ahead(ctx, halfMargin)
	defer cancel()
	returned, err := g.fleet.register.Returned(soon, d.handle().String(), need, time.Now())
	if err == nil && g.unserved > 0 && returned >= g.unserved {
		var members []register.Member
		members, err = g.fleet.members(soon)
		serves := func(m register.Member) bool { return m.Serves(need) }
		if err == nil && !slices.ContainsFunc(members, serves) {
			return g.refuse(ctx, d, tasks.Permanent(fmt.Errorf(unservedText+": %w", g.unserved, cause)))
		}
	}
	g.logReturned(ctx, d, need, errors.Join(cause, err))
	pause := min(max(returnPauseMin, returned), register.ReturnPauseMost)
	if left := g.unserved - returned; g.unserved > 0 && left > 0 {
		pause = min(pause, left)
	}
	return g.deferTask(ctx, d, dispatcher.Stop{
		Missing: "worker " + g.fleet.name + " has no " + need.String(), After: pause,
	})
}

// lacks returns what the worker lacks whose handler left the task to another worker, and stores it if the handler has
// named it.
func (g *guard) lacks(ctx context.Context, d *delivery, err error) register.Need {
	lack, named := errors.AsType[*register.LackError](err)
	if !named {
		return register.Need{Type: d.task.Type(), Limit: d.charge().Limit}
	}
	soon, cancel := ahead(ctx, halfMargin)
	defer cancel()
	_, _ = g.fleet.register.Returned(soon, d.handle().String(), lack.Need, time.Now()) // stored again in some seconds
	return lack.Need
}

// logReturned logs that a task goes back for another worker: once a minute as a warning for each need.
func (g *guard) logReturned(ctx context.Context, d *delivery, need register.Need, cause error) {
	level := slog.LevelDebug
	if g.fleet.first(need, warnEvery) {
		level = slog.LevelWarn
	}
	g.logTask(ctx, d, level, "task returned to the queue, this worker can't serve it: it waits for a worker that can; "+
		"further ones are logged at debug level for a minute", slog.String("missing", need.String()),
		slog.Any("error", cause))
}

// welcome wakes the tasks that others returned and this worker can serve. It looks at each renewal, because another
// worker may have returned a task just before this one was in the register.
func (f *fleet) welcome(ctx context.Context, own register.Member) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	lacks, err := f.register.Lacked(ctx, time.Now())
	for _, l := range lacks {
		if !l.Provider && own.Serves(l.Need) { // a call comes back every few seconds
			err = errors.Join(err, f.wake(ctx, l.Need))
		}
	}
	if err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "tasks that others returned are delivered later", slog.Any("error", err))
	}
}

// wake wakes all tasks that have the need.
func (f *fleet) wake(ctx context.Context, need register.Need) error {
	woken := 0
	defer func() {
		if woken > 0 {
			f.log.LogAttrs(ctx, slog.LevelInfo, "tasks that waited for a worker like this one are delivered",
				slog.Int("tasks", woken), slog.String("needed", need.String()))
		}
	}()
	for {
		names, err := f.register.Unserved(ctx, need)
		if err != nil || len(names) == 0 {
			return err
		}
		queues, served := map[string][]string{}, make([]string, 0, len(names))
		for _, name := range names {
			if t, unknown := waitlist.ParseTask(name); unknown == nil {
				queues[t.Queue] = append(queues[t.Queue], t.ID)
			} else {
				served = append(served, name) // of another version
			}
		}
		for queue, ids := range queues {
			wakes, wakeErr := f.db.Wake(ctx, queue, ids, 0)
			if wakeErr != nil {
				return wakeErr
			}
			for i, w := range wakes {
				if w == asynqdb.Woken {
					woken++
				}
				if w != asynqdb.Active { // else its worker has not put it back yet
					served = append(served, waitlist.Task{Queue: queue, ID: ids[i]}.String())
				}
			}
		}
		if len(served) == 0 {
			return nil
		}
		if err = f.register.Served(ctx, need, served); err != nil {
			return err
		}
	}
}
