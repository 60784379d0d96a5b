package reservations

// ViewOf is the View of a state of a bucket.
var ViewOf = view

// ValidateIn says why a limit can never serve the charge.
func (c Charge) ValidateIn(l Limit) error { return c.validate(l) }
