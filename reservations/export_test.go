package reservations

import "github.com/headway-go/headway/internal/bucket"

// ViewOf is the View of a state of a bucket.
var ViewOf = view

// ValidateIn says why a limit can never serve the charge.
func (c Charge) ValidateIn(l Limit) error { return c.validate(l) }

// Rules is the meter as a bucket has it.
func (m Meter) Rules() bucket.Meter { return m.rules() }
