package bucket

import (
	"slices"
	"time"
)

// Taken are tokens that are taken until a moment: by tasks that hold, or as the slots of one call by its lease.
type Taken struct {
	// ID is that of the lease, and zero for holds. It is left out of the JSON form.
	ID int64 `json:"-" bson:"i,omitempty"`
	// Until is when the holds or the lease end on the store's clock: rounded up to 50 ms, and to a second.
	Until time.Time `json:"until" bson:"u"`
	// Tokens are what all tasks together hold until then, or the slots.
	Tokens float64 `json:"n" bson:"n"`
}

// notEnded returns what of all, in the order of the ends, has not ended at a moment; nil for nothing.
func notEnded(all []Taken, at time.Time) []Taken {
	i := slices.IndexFunc(all, func(t Taken) bool { return t.Until.After(at) })
	if i < 0 {
		return nil
	}
	return all[i:]
}

// moved is a copy of all that ends later by d.
func moved(all []Taken, d time.Duration) []Taken {
	all = slices.Clone(all)
	for i := range all {
		all[i].Until = all[i].Until.Add(d)
	}
	return all
}
