package scheduler_test

import "github.com/headway-go/headway/reservations"

// startOf is the start of one charge, and the answer of its bucket.
type startOf struct {
	charge  reservations.Charge
	outcome reservations.Outcome
}

func (s startOf) Charges() []reservations.Charge         { return []reservations.Charge{s.charge} }
func (s startOf) Outcomes() []reservations.Outcome       { return []reservations.Outcome{s.outcome} }
func (startOf) SetCharge(int, reservations.Charge, bool) {}
