package register

// LackError is an error of a handler that its worker can't run a task, because it lacks what the task needs. It matches
// the error that it wraps.
type LackError struct {
	Need Need
	Err  error
}

func (e *LackError) Error() string { return e.Err.Error() }
func (e *LackError) Unwrap() error { return e.Err }
