package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/reservations"
)

// listedRate is a rate and its burst.
type listedRate struct {
	Rate     string  `json:"rate"`
	Capacity float64 `json:"capacity"`
}

func (r *listedRate) String() string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%s, at most %v", r.Rate, r.Capacity)
}

// listed is one meter of a limit, or of one of its keys: as headway.yaml has it and as it was set.
type listed struct {
	Limit      string      `json:"limit"`
	Key        string      `json:"key,omitempty"`
	Meter      string      `json:"meter"`
	Configured *listedRate `json:"configured"` // null where headway.yaml does not have it
	Override   *listedRate `json:"override"`   // null where nothing was set
	SetBy      string      `json:"set_by,omitempty"`
	SetAt      *time.Time  `json:"set_at,omitempty"`
	Ignored    string      `json:"ignored,omitempty"` // why what was set is not in force
}

func limitsListCommand(env cli.Environment) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the limits as configured and as set",
		Long: `List shows each meter of headway.yaml with its rate, and beside it what "limits set" has set, by whom and when. What was set counts; for
a key its own first. On a terminal that is too narrow the table has shorter times, then no bursts, then not who has set a limit, and when.`,
		Example: `  worker limits list
  worker limits list --json | jq '.[] | select(.override)'`,
		Args: cli.Args(cobra.NoArgs),
	}
	c.Flags().StringVar(&file, "config", config.FileDefault, "the `file` with the limits")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON list")
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows, err := listLimits(c.Context(), env, file)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(env.Out).Encode(rows)
		}
		_, err = fmt.Fprint(env.Out, limitsTable(rows, cli.Columns(env.Out), cli.IsTerminal(env.Out) && env.Getenv("NO_COLOR") == ""))
		return err
	}
	return c
}

// configuredRate is a meter as the file has it.
func configuredRate(m reservations.Meter) *listedRate {
	if m.Kind == reservations.KindInFlight {
		return &listedRate{Rate: rateText(m), Capacity: m.Cap()}
	}
	return &listedRate{Rate: config.RateText(m.Rate, m.Period), Capacity: m.Cap()}
}

func listLimits(ctx context.Context, env cli.Environment, file string) ([]listed, error) {
	now, err := openStored(ctx, env, file)
	if err != nil {
		return nil, err
	}
	defer now.close(ctx)
	rows := []listed{}
	shown := map[reservations.Override]bool{}
	for _, l := range now.limits {
		for _, m := range l.Meters {
			row := listed{Limit: l.Name, Meter: m.Name, Configured: configuredRate(m)}
			keyed := []listed{}
			for _, o := range now.list {
				if o.Limit != l.Name || o.Meter != m.Name {
					continue
				}
				shown[o] = true
				if o.Key == "" {
					row.set(now, o)
					continue
				}
				of := listed{Limit: l.Name, Key: o.Key, Meter: m.Name, Configured: row.Configured}
				of.set(now, o)
				keyed = append(keyed, of)
			}
			rows = append(append(rows, row), keyed...)
		}
	}
	for _, o := range now.list {
		if !shown[o] {
			row := listed{Limit: o.Limit, Key: o.Key, Meter: o.Meter}
			row.set(now, o)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// set fills in what was set, and why it is not in force where it is not.
func (r *listed) set(now *stored, o reservations.Override) {
	r.Override = &listedRate{Rate: config.RateText(o.Rate, o.Period), Capacity: o.Capacity}
	r.SetBy, r.SetAt = o.By, &o.SetAt
	m := now.meter(o.Limit, o.Key, o.Meter)
	switch {
	case m.Name == "":
		r.Ignored = "headway.yaml has no such meter"
	case m.Rate != o.Rate || m.Period != o.Period:
		r.Ignored = "no limit can be so"
	}
	if r.Ignored == "" {
		r.Override.Capacity = m.Cap()
	}
}
