package llm

import "github.com/headway-go/headway/tasks"

// TaskOptions implements tasks.Optioner: a chat of a batch has an ID of its own, so that it is enqueued once.
func (c Chat) TaskOptions() tasks.Options { return optionsOf(c.Batch) }

func optionsOf(ref *tasks.BatchRef) tasks.Options {
	if ref == nil {
		return tasks.Options{}
	}
	return tasks.Options{ID: ref.TaskID()}
}
