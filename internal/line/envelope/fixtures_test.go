package envelope_test

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// summary implements all interfaces of arguments.
type summary struct {
	DocumentID string `json:"document_id"`
	Size       float64
	Empty      bool `json:"-"`
	Same       bool `json:"-"`
	Models     int  `json:"-"`
}

func (summary) TaskType() string { return "summary" }

func (s summary) Charges() []reservations.Charge {
	if s.Empty {
		return nil
	}
	charge := reservations.Charge{
		Limit: "openai", Key: "team-a", Tokens: reservations.Tokens{"requests": 1, "tokens": s.Size},
	}
	charges := []reservations.Charge{charge}
	if s.Same {
		charges = append(charges, charge)
	}
	for i := range s.Models {
		charges = append(charges, reservations.Charge{
			Limit: "openai", Key: fmt.Sprintf("model-%d", i), Tokens: reservations.Tokens{"requests": 1},
		})
	}
	return charges
}

func (summary) TaskOptions() tasks.Options {
	return tasks.Options{Queue: "summaries", MaxRetry: 3, Timeout: 1500 * time.Millisecond}
}

// mail implements Args alone, with a pointer receiver.
type mail struct {
	To string `json:"to"`
}

func (*mail) TaskType() string { return "mail" }

type nameless struct{}

func (nameless) TaskType() string { return " " }

type unencodable struct{ C chan int }

func (unencodable) TaskType() string { return "unencodable" }

type nowhere struct{}

func (nowhere) TaskType() string { return "nowhere" }

func (nowhere) Charges() []reservations.Charge {
	return []reservations.Charge{{Tokens: reservations.Tokens{"requests": 1}}}
}

// list encodes as null when it is nil.
type list []string

func (list) TaskType() string { return "list" }
