package scheduler

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// expressMark ends the name of the line of a bucket's urgent tasks; that of the others ends with the digits of the generation.
const expressMark = "!"

// lineMark is what tells the line in which the outcome lets a task stand from the other line of its bucket.
func lineMark(o reservations.Outcome) string {
	if o.State == reservations.StateExpress {
		return expressMark
	}
	return ""
}

// onItsLine is the outcome with the clock of the line in which it lets a task stand.
func onItsLine(o reservations.Outcome) reservations.Outcome {
	if o.State == reservations.StateExpress {
		o.Shift, o.Speed = o.ExpressShift, 1
	}
	return o
}

// movementsOf reads what the outcome says of all lines of its bucket: where the limit has headroom, urgent tasks have one of their own.
func movementsOf(bucket string, o reservations.Outcome, heard time.Time) []movement {
	o.State = ""
	moves := []movement{movementOf(bucket, o, heard)}
	if o.Headroom {
		o.State = reservations.StateExpress
		moves = append(moves, movementOf(bucket, o, heard))
	}
	return moves
}
