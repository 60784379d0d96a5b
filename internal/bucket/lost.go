package bucket

import "time"

// lostLease is the ID of the lease that stands for all leases that a store may have lost. No call has it.
const lostLease = -1

// lost is the bucket without what may have been taken before Since, which is all that was there then. Tasks that were
// started before may hold for a while, and calls may run until their leases end. A settlement that was first sent
// before may have counted. B owns its meters.
func (b Bucket) lost() Bucket {
	if b.Since.IsZero() {
		return b
	}
	held := b.Since.Add(Hold)
	ended := b.Since.Add(LeaseKept + leaseStep - 1).Truncate(leaseStep)
	for k, s := range b.Meters {
		switch {
		case s.Filling.InFlight && ended.After(b.At):
			s = s.lease(Taken{ID: lostLease, Until: ended, Tokens: s.Filling.Capacity})
		case !s.Filling.InFlight:
			s.Started = min(s.Started, s.Filling.passed(held, b.At)-s.Filling.passed(b.At, held))
			s.Reserved = min(s.Reserved, s.Started)
			if held.After(b.At) {
				s = s.hold(s.Filling.Capacity, held)
			}
		}
		b.Meters[k] = s
	}
	b.Forgot, b.Since = Later(b.Forgot, b.Since), time.Time{}
	return b
}
