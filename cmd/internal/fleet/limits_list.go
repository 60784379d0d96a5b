package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
)

// inFlightRate stands where calls in flight have no rate.
const inFlightRate = "in flight"

// listedRate is a rate and its burst.
type listedRate struct {
	Rate     string  `json:"rate"`
	Capacity float64 `json:"capacity"`
}

// text is for people, with or without the size of the burst.
func (r *listedRate) text(burst bool) string {
	switch {
	case r == nil:
		return "-"
	case r.Capacity == 0 && burst:
		return r.Rate + ", one after another"
	case r.Capacity == 0:
		return r.Rate + ", no burst"
	case burst:
		return fmt.Sprintf("%s, at most %s", r.Rate, cli.Amount(r.Capacity))
	}
	return r.Rate
}

// listed is one meter of a limit, or of one of its keys: as live workers or headway.yaml have it, and as it was set.
type listed struct {
	Limit      string      `json:"limit"`
	Key        string      `json:"key,omitempty"`
	Meter      string      `json:"meter"`
	Configured *listedRate `json:"configured"` // null where neither live workers nor headway.yaml have it
	Override   *listedRate `json:"override"`   // null where nothing was set
	SetBy      string      `json:"set_by,omitempty"`
	SetAt      *time.Time  `json:"set_at,omitempty"`
	Ignored    string      `json:"ignored,omitempty"` // why what was set is not in force
	Place      string      `json:"place,omitempty"`   // where the limit is, unless live workers and headway.yaml have it
}

func limitsListCommand(env cli.Environment) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the limits as configured and as set",
		Long: `List shows each meter of live workers and of headway.yaml with its rate, and beside it what "limits set"
has set, its author and its time; then which limits are in one of both places alone. What was set counts; for a key its
own first. On a terminal that is too narrow the table has shorter times, then no bursts, then neither author nor time of
a setting.`,
		Example: `  headway limits list
  headway limits list --json | jq '.[] | select(.override)'`,
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON list")
	c.RunE = func(c *cobra.Command, _ []string) error {
		rows, err := listLimits(c.Context(), env, file)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.JSON(env.Out).Encode(rows)
		}
		s := screenOf(env)
		if _, err = fmt.Fprint(s, limitsTable(rows, s.columns, s.bold)); err != nil {
			return err
		}
		for i, r := range rows {
			if r.Place != "" && (i == 0 || rows[i-1].Limit != r.Limit) {
				fmt.Fprintf(s, "limit %s is %s\n", cli.Line(r.Limit), cli.Line(r.Place))
			}
		}
		return nil
	}
	return c
}

// configuredRate is a meter as the file has it.
func configuredRate(m reservations.Meter) *listedRate {
	if m.Kind == reservations.KindInFlight {
		return &listedRate{Rate: inFlightRate, Capacity: m.Cap()}
	}
	return &listedRate{Rate: register.RateText(m), Capacity: m.Cap()}
}

func listLimits(ctx context.Context, env cli.Environment, file string) ([]listed, error) {
	now, err := session.Load(ctx, env, file, session.Needs{NoQueue: true})
	if err != nil {
		return nil, err
	}
	defer now.Close(ctx)
	rows := []listed{}
	shown := map[reservations.Override]bool{}
	for _, l := range now.Config.Limits {
		for _, m := range l.Meters {
			row := listed{
				Limit: l.Name, Meter: m.Name, Configured: configuredRate(m), Place: now.Reader().Source(l.Name).Place,
			}
			all := len(rows) // the row of all keys
			rows = append(rows, row)
			for _, o := range now.Overrides {
				if o.Limit != l.Name || o.Meter != m.Name {
					continue
				}
				shown[o] = true
				at := all
				if o.Key != "" {
					row.Key, at = o.Key, len(rows)
					rows = append(rows, row)
				}
				rows[at].set(now.Limiter, o)
			}
		}
	}
	for _, o := range now.Overrides {
		if !shown[o] {
			row := listed{Limit: o.Limit, Key: o.Key, Meter: o.Meter}
			row.set(now.Limiter, o)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// set fills in what was set, and why it is not in force where it is not.
func (r *listed) set(now *reservations.Limiter, o reservations.Override) {
	r.Override = &listedRate{Rate: bucket.RateText(o.Rate, o.Period), Capacity: max(0, cmp.Or(o.Capacity, o.Rate))}
	if o.Meter == reservations.MeterInFlight {
		r.Override.Rate = inFlightRate
	}
	r.SetBy, r.SetAt = o.By, &o.SetAt
	m := inForce(now, o)
	switch {
	case m.Name == "":
		r.Ignored = "no limit has such a meter"
	case m.Rate != o.Rate || m.Period != o.Period || m.Kind == reservations.KindInFlight && m.Cap() != o.Capacity:
		r.Ignored = "no limit can be so"
	}
	if r.Ignored == "" {
		r.Override.Capacity = m.Cap()
	}
}

// byShown is the least width of the author of a setting in a narrow table.
const byShown = 6

// limitsTable shows limits in lines of at most columns characters; zero is no bound. A narrow table has shorter times,
// and the column of keys only if there are keys. If that does not fit, it has no bursts, then neither the author nor
// the time of a setting. In colour the lines of limits that were set are bold.
func limitsTable(rows []listed, columns int, colour bool) string {
	key := 0
	if slices.ContainsFunc(rows, func(r listed) bool { return r.Key != "" }) {
		key = 3
	}
	heads := []cli.Column{
		{Head: "LIMIT", Until: 3},
		{Head: "METER", Until: 3},
		{Head: "KEY", Until: key},
		{Head: "CONFIGURED", Until: 3},
		{Head: "SET", Until: 3},
		{Head: "BY", Until: 2, Least: []int{0, byShown, byShown}},
		{Head: "AT", Until: 2},
	}
	lines := cli.Table(rows, columns, heads, func(r listed, level int) []string { return r.cells(level) })
	for i, r := range rows {
		if r.Override != nil {
			lines[i+1] = screen{bold: colour}.title(lines[i+1])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// cells are the texts of a row at a level of the table: shorter above 0, without the size of bursts above 1.
func (r *listed) cells(level int) []string {
	configured, set, at := r.Configured.text(level < 2), r.Override.text(level < 2), ""
	switch {
	case r.SetAt == nil:
	case level == 0:
		at = r.SetAt.UTC().Format(time.RFC3339)
	default:
		at = cli.Day(*r.SetAt)
	}
	switch {
	case r.Ignored == "":
	case level == 0:
		at += "  ignored: " + r.Ignored
	default:
		set += " (ignored)"
	}
	return []string{r.Limit, r.Meter, r.Key, configured, set, r.SetBy, at}
}
