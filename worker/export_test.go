package worker

import "time"

// neverLate is longer than any pause of a machine in a test.
const neverLate = time.Hour

// NeverLate turns off the second request of late starts, because a busy machine would charge a task twice.
func (w *Worker) NeverLate() { w.guard.lateMost = neverLate }

// NeverLate is like Worker.NeverLate.
func (l *Limits) NeverLate() { l.guard.lateMost = neverLate }
