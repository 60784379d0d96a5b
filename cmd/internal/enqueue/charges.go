package enqueue

import (
	"context"
	"io"

	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Batch is a file of requests whose charges are wanted, and not its tasks.
type Batch struct {
	// Name is the file; "-" is In.
	Name string
	In   io.Reader
	// Config is the file with the limits, Limits the limits as `headway batch` takes them, Model the model of all
	// requests.
	Config string
	Limits []string
	Model  string
	Terms  tasks.Terms
}

// Charges calls each with the line and the charges of every request, as `headway batch` would enqueue it. The error
// names the faulty lines: a *cli.UsageError.
func (b Batch) Charges(ctx context.Context, each func(line int, charges []reservations.Charge)) error {
	t := target{file: b.Config, limits: b.Limits, large: true, common: b.Terms}
	c, err := config.Load(b.Config)
	if err != nil {
		return err
	}
	s, err := t.source(c, b.Model)
	if err != nil {
		return err
	}
	t.model = b.Model
	file, err := open(ctx, b.Name, b.In)
	if err != nil {
		return err
	}
	defer func() { _ = file.file.Close() }()
	requests, faulty := 0, result{}
	err = s.each(file, false, func(r request) error {
		requests++
		each(r.line.Number, r.Charges())
		return nil
	}, func(fault error) {
		if faulty.Faulty++; faulty.Faulty <= faultsListed {
			faulty.Faults = append(faulty.Faults, fault.Error())
		}
	})
	switch {
	case err != nil:
		return err
	case faulty.Faulty > 0:
		return cli.Usage("%s: %d of %d lines are faulty:\n%s", b.Name, faulty.Faulty, requests+faulty.Faulty,
			faulty.faults())
	case requests == 0:
		return &cli.UsageError{Err: batch.ErrEmpty}
	}
	return nil
}
