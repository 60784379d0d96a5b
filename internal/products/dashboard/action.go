package dashboard

// action is a change that a page offers: a button that says what it does, and asks, before it does it.
type action struct {
	Path string // that its form is sent to
	Name string // of the button
	Of   string // what it changes, for a screen reader
	Says string // what it does
	// Sends are the fields that say what to change, Asks the ones that a reader fills in.
	Sends [][2]string
	Asks  []asked
}

// asked is a field of a form that a reader fills in.
type asked struct {
	Name, Label, Example string
	Optional             bool
}

// offer are the actions of a page where changes are allowed.
func (s *Server) offer(all ...action) []action {
	if !s.config.AllowChanges {
		return nil
	}
	return all
}

// pausing pauses the queue, or resumes it if it is paused.
func pausing(queue string, paused bool) action {
	sends := [][2]string{{"queue", queue}}
	if paused {
		return action{
			Path: "resume", Name: "Resume", Of: "queue " + queue, Sends: sends,
			Says: "Its tasks start again, within their limits and in their order.",
		}
	}
	return action{
		Path: "pause", Name: "Pause", Of: "queue " + queue, Sends: sends,
		Says: "No task of queue " + queue + " starts until it is resumed. Tasks that run go on, and none is lost.",
	}
}

// requeueing sends a dead task again. From is empty, or task to come back to its page.
func requeueing(queue, id, from string) action {
	return action{
		Path: "requeue", Name: "Requeue", Of: "task " + id, Sends: [][2]string{{"queue", queue}, {"id", id}, {"from", from}},
		Says: "Task " + id + " goes into queue " + queue + " again, with all its retries.",
	}
}

// deleting deletes a task that waits, or the record of a dead one.
func deleting(queue, id string, dead bool) action {
	says := "Task " + id + " leaves queue " + queue + ", and does not run. What it has reserved goes to others."
	if dead {
		says = "Task " + id + " and its record are deleted. It can't be requeued then."
	}
	return action{
		Path: "delete", Name: "Delete", Of: "task " + id, Sends: [][2]string{{"queue", queue}, {"id", id}}, Says: says,
	}
}
