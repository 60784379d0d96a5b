package tasks

import (
	"github.com/headway-go/headway/reservations"
)

// Args is the payload of a task. It is encoded with encoding/json.
type Args interface {
	// TaskType names the type of the task, e.g. "summary" or "mail:send". It must not be empty, and must not depend on the
	// payload: it is also called on a zero value.
	TaskType() string
}

// Charger is implemented by arguments whose tasks have charges. A type that seems to be one and is none is refused
// wherever it is used, because its tasks would be unlimited: one whose pointer alone has Charges, whose Charges has
// another signature, that embeds two types with Charges, or that has charges in a field. Nothing sees a method
// charges: this line lets the compiler check a type:
//
//	var _ tasks.Charger = Summary{}
type Charger interface {
	// Charges returns the charges of one task. The task takes all of them when it starts, and again for each attempt.
	// Nil means that the task is unlimited. Each charge names all meters of its limit, with zero for nothing. There are
	// at most 8 charges, each for another bucket. Put the charge of the narrowest limit first and the provider's
	// last, because the task asks the buckets in this order. So a tenant with a small share waits for its own limit
	// before it takes tokens from others. A refusal by the provider ([reservations.RetryAfter]) blocks the bucket of the
	// last charge.
	Charges() []reservations.Charge
}

// Optioner is implemented by arguments whose type has default options of its own. A type that seems to be one and is
// none is refused, as for Charger.
type Optioner interface {
	// TaskOptions returns the default options of a task. Options of the enqueue call override them. They may depend
	// on the payload, e.g. for an ID that makes enqueuing twice harmless.
	TaskOptions() Options
}
