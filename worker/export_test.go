package worker

import "time"

// neverLate is longer than any pause of a machine in a test.
const neverLate = time.Hour

// NeverLate has no start ask again because it came late: a busy machine would charge a task twice.
func (w *Worker) NeverLate() { w.guard.lateMost = neverLate }

// NeverLate is as for Worker.
func (l *Limits) NeverLate() { l.guard.lateMost = neverLate }
