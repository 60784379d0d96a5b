package worker

import "time"

// neverLate is longer than any machine stands still in a test.
const neverLate = time.Hour

// NeverLate has no start ask again because it came late: a busy machine would charge a task twice.
func (w *Worker) NeverLate() { w.gate.lateMost = neverLate }

// NeverLate is as for Worker.
func (l *Limits) NeverLate() { l.gate.lateMost = neverLate }
