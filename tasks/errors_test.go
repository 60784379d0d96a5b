package tasks_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/tasks"
)

func TestPermanent(t *testing.T) {
	t.Parallel()
	if tasks.Permanent(nil) != nil {
		t.Error("nil became an error")
	}
	for _, cause := range []error{
		io.EOF, fmt.Errorf("read: %w", io.EOF), fmt.Errorf("%w: %w", asynq.SkipRetry, io.EOF), tasks.Permanent(io.EOF),
	} {
		err := tasks.Permanent(cause)
		for _, target := range []error{tasks.ErrPermanent, asynq.SkipRetry, io.EOF} {
			if !errors.Is(err, target) {
				t.Errorf("%v does not match %v", err, target)
			}
		}
		if err.Error() != cause.Error() {
			t.Errorf("text %q became %q", cause, err)
		}
		if errors.Is(err, tasks.ErrBadPayload) {
			t.Errorf("%v matches everything", err)
		}
	}
	if once := tasks.Permanent(io.EOF); tasks.Permanent(once) != once { //nolint:errorlint // must be the same value
		t.Error("wrapped twice")
	}
}
