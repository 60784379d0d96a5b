package batch

import (
	"errors"
	"io"
)

// faultsListed bounds the faults that a [CheckError] lists.
const faultsListed = 20

// Check reads a whole file and returns the number of its good lines. The error is a [*CheckError] with all faults,
// [ErrEmpty] for a file without lines, or what reading failed with.
func Check(r io.Reader, cfg Config) (int, error) {
	lines := NewReader(r, cfg)
	good := 0
	var faults CheckError
	for {
		_, err := lines.Next()
		if err == nil {
			good++
			continue
		}
		if fault, ok := errors.AsType[*LineError](err); ok {
			if len(faults.Listed) < faultsListed {
				faults.Listed = append(faults.Listed, fault)
			} else {
				faults.More++
			}
			continue
		}
		switch {
		case !errors.Is(err, io.EOF):
			return good, err
		case len(faults.Listed) > 0:
			return good, &faults
		case good == 0:
			return 0, ErrEmpty
		default:
			return good, nil
		}
	}
}
