package scheduler

import (
	"errors"
	"fmt"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

func invalid(field, format string, args ...any) error {
	return &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// merged are the options of a call with n tasks; later ones override earlier ones. The error joins every fault and
// matches tasks.ErrInvalidOptions.
func merged(opts []tasks.Options, n int) (o tasks.Options, err error) {
	for _, over := range opts {
		o = envelope.Merge(o, over)
	}
	faults := []error{envelope.Validate(o)}
	if o.ID != "" && n > 1 {
		faults = append(faults, invalid("id", "%q can't be that of %d tasks; let the type give the IDs", o.ID, n))
	}
	if o.Unique != "" && n > 1 {
		faults = append(faults, invalid("unique", "%q can't be that of %d tasks; let the type give the keys", o.Unique, n))
	}
	if err = errors.Join(faults...); err != nil {
		return o, fmt.Errorf("%w: %w", tasks.ErrInvalidOptions, err)
	}
	return o, nil
}

// alone says whether the error is about one task: others are sent all the same.
func alone(err error) bool { return exists(err) || errors.Is(err, tasks.ErrExpired) }
