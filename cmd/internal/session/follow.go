package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/config"
)

// overridesEvery is how often overrides are read, as by workers.
const overridesEvery = 2 * time.Second

// Follow returns a function that applies each change of the file, and of the limits of live workers, to the limiter. It
// also applies the overrides of the fleet. It reads the fleet at most as often as workers read overrides.
func (s *Session) Follow(file string) func(context.Context) error {
	changed := Changes(file)
	var last time.Time
	var fault, unset error
	return func(ctx context.Context) error {
		isNew := changed()
		if isNew {
			var next config.Config
			if next, fault = config.Load(file); fault == nil {
				s.sources.file = next.Limits
			}
		}
		due := time.Since(last) >= overridesEvery
		if due {
			s.readMembers(ctx, s.Queue)
		}
		if isNew || due {
			unset = s.Limiter.SetLimits(s.sources.limits())
		}
		if !due {
			return errors.Join(fault, unset)
		}
		last = time.Now()
		overrides, err := s.Buckets.Overrides(ctx)
		if err == nil || overrides != nil { // else they can't be read, and the last ones stay
			err = errors.Join(err, inside.Of(s.Limiter).SetOverrides(overrides))
		}
		return errors.Join(fault, unset, err)
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
