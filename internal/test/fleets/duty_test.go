package fleets_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// dutyLog reads the log of a worker: it says when the worker goes on duty as dispatcher.
type dutyLog struct {
	fleet   *fleet
	process string
}

func (dutyLog) Enabled(context.Context, slog.Level) bool { return true }
func (l dutyLog) WithGroup(string) slog.Handler          { return l }

func (l dutyLog) WithAttrs(all []slog.Attr) slog.Handler {
	if i := slices.IndexFunc(all, func(a slog.Attr) bool { return a.Key == "process" }); i >= 0 {
		l.process = all[i].Value.String()
	}
	return l
}

func (l dutyLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "on duty as dispatcher" {
		l.fleet.mu.Lock()
		defer l.fleet.mu.Unlock()
		l.fleet.onDuty = l.process
		l.fleet.duties++
	}
	return nil
}

// dispatcher returns the number of the worker on duty, and how often a worker has gone on duty so far.
func (f *fleet) dispatcher() (number, duties int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := fmt.Sscanf(f.onDuty, "worker %d", &number); err != nil {
		f.t.Fatalf("%q is on duty, and no worker: %v", f.onDuty, err)
	}
	return number, f.duties
}

// awaitOther lets time pass until another worker is on duty, and returns how long that took.
func (f *fleet) awaitOther(duties int) time.Duration {
	f.t.Helper()
	began := time.Now()
	for ; ; f.Run(10 * time.Millisecond) {
		if _, now := f.dispatcher(); now > duties {
			return time.Since(began) //gate:ok called in a bubble
		}
		if time.Since(began) > patience { //gate:ok called in a bubble
			f.t.Fatal("no other worker goes on duty")
		}
	}
}
