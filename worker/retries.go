package worker

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/dispatcher"
)

// The count of retries is ours. For asynq a worker that died is a failure too. So its count is higher by
// envelope.Slack, and the end of a task is decided here.

// verdict is the result for asynq: a failure beyond Headway's count of retries is final.
func (d *delivery) verdict(err error) error {
	switch {
	case err == nil, d.archives(err), errors.Is(err, dispatcher.ErrDeferred), errors.Is(err, asynq.RevokeTask):
		return err
	case d.retried >= d.maxRetry:
		return &finalError{err: err}
	default:
		return err
	}
}

// archives says whether asynq archives the task on this error.
func (d *delivery) archives(err error) bool { return errors.Is(err, asynq.SkipRetry) }

// finalError is the last failure of a task whose retries are used up: asynq archives it. Its text is that of the
// failure.
type finalError struct{ err error }

func (e *finalError) Error() string        { return e.err.Error() }
func (e *finalError) Unwrap() error        { return e.err }
func (e *finalError) Is(target error) bool { return target == asynq.SkipRetry }

// legible makes the text of err UTF-8: asynq can't store any other, and would neither retry nor archive the task.
func legible(err error) error {
	_, deferred := err.(*dispatcher.DeferredError) //nolint:errorlint // its text is valid, and costly
	if err == nil || deferred || utf8.ValidString(err.Error()) {
		return err
	}
	return &legibleError{err: err}
}

type legibleError struct{ err error }

func (e *legibleError) Error() string { return strings.ToValidUTF8(e.err.Error(), "\uFFFD") }
func (e *legibleError) Unwrap() error { return e.err }
