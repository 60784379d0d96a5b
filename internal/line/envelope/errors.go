package envelope

import "errors"

var (
	// ErrTooManyCharges means that a task has more than MaxCharges charges.
	ErrTooManyCharges = errors.New("tasks: a task can have 8 charges at most")
	// ErrUnknownVersion means that an unknown version of Headway encoded the task.
	ErrUnknownVersion = errors.New("tasks: unknown version")
	// ErrWrongType means that a task was decoded as another type than its own.
	ErrWrongType = errors.New("tasks: wrong task type")
	// ErrBadHeader means that a header of Headway does not parse.
	ErrBadHeader = errors.New("tasks: bad header")
)

const (
	// MaxCharges is the largest number of charges of a task.
	MaxCharges = 8
	// MaxRetryDefault is the default number of retries of a failed task.
	MaxRetryDefault = 25
	// maxRetryLargest is the largest allowed number of retries.
	maxRetryLargest = 1_000_000
)
