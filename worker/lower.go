package worker

import "github.com/headway-go/headway/reservations"

// Lower lowers the charges before the work, if their use is known better than at enqueue. The charges are lowered at
// once, as by a settlement, and Use is settled against the lowered ones. A meter's name means that meter in every
// limit of the task that has it. An amount above a charge is ignored, and so is a meter whose limit keeps the
// estimate. Charges has the lowered charges then. Only the first call counts; nothing happens for an unlimited task,
// and after the handler has ended. Not safe for concurrent use.
func (j *Job[T]) Lower(tokens reservations.Tokens) {
	if j.lower == nil {
		return
	}
	if charges := j.lower(tokens); charges != nil {
		j.Charges = charges
	}
	j.lower = nil
}
