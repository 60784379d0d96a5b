package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"time"

	"github.com/headway-go/headway/internal/config"
)

// overridesEvery is how often overrides are read, as by workers.
const overridesEvery = 2 * time.Second

// Follow returns a function that applies each change of the file to the limiter, and the overrides of the fleet. It
// reads overrides at most as often as workers do.
func (s *Session) Follow(file string) func(context.Context) error {
	changed := Changes(file)
	var last time.Time
	var fault error
	return func(ctx context.Context) error {
		if changed() {
			var next config.Config
			if next, fault = config.Load(file); fault == nil {
				fault = s.Limiter.SetLimits(next.Limits)
			}
		}
		if now := time.Now(); now.Sub(last) < overridesEvery {
			return fault
		}
		last = time.Now()
		overrides, err := s.Buckets.Overrides(ctx)
		if err == nil || overrides != nil { // else they can't be read, and the last ones stay
			err = errors.Join(err, s.Limiter.SetOverrides(overrides))
		}
		return errors.Join(fault, err)
	}
}

// Changes returns a function that says whether the content of a file is another one than the last time. A file that is
// away for a moment has not changed. Editors replace files, so the content counts.
func Changes(name string) (changed func() bool) {
	var last []byte
	changed = func() bool {
		text, err := os.ReadFile(name) //nolint:gosec // the user names the file
		if err != nil {
			return false
		}
		sum := sha256.Sum256(text)
		if bytes.Equal(sum[:], last) {
			return false
		}
		last = sum[:]
		return true
	}
	changed()
	return changed
}
