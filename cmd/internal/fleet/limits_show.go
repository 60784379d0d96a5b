package fleet

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

func newLimitsShow(env cli.Environment) *cobra.Command {
	var asJSON bool
	var file string
	c := &cobra.Command{
		Use:   "show [LIMIT[:KEY]]",
		Short: "Show how full buckets are, how many tasks wait for them, and for how long",
		Long: `Show prints for each bucket the length of its waitlist and when the last task there is expected to start,
if no other comes; then for each meter
  RATE      what comes back at present; of an adaptive meter with its bounds
  LEVEL     the tokens that may start now, of the capacity; less than none is a debt, which comes back first. Of calls
            in flight it is how many run
  PROMISED  the tokens that are reserved for waiting tasks
  AHEAD     how many tokens have to come back, of max_reserved, until new tasks find tokens that are not promised,
            and when that will be;
            tokens that are not scarce are ahead as well, as long as the waiting tasks wait for others
  WAITING   the tokens that all waiting tasks take, also tasks without a reservation
then the ten flows that have most tasks there, why nothing starts and what ends that, and a rate that was set. While
tasks of a paused queue wait, no start is expected.

Without an argument it shows all limits of live workers, and the limits that only the file has: the bucket that all
keys share, and the buckets of keys for which tasks wait; then what else is stuck, or with a LIMIT what else keeps its
tasks. It says where workers and the file differ: the settings of the workers count. It changes nothing.`,
		Example: `  headway limits show
  headway limits show openai
  headway limits show tenant:acme --json | jq '.limits[].buckets[].waiting'`,
		Args: cli.Named("[LIMIT[:KEY]]"),
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := session.Load(c.Context(), env, file, session.Needs{})
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		what := strings.Join(args, "")
		fleet := s.Reader().LookAt(c.Context(), s.Queue, what)
		if err = fleet.Unread(state.PartLimits); err != nil {
			return err
		}
		stuck := state.Problems(fleet)
		if what != "" {
			stuck = fleet.Limits[0].Of(stuck)
		}
		if asJSON {
			return cli.JSON(env.Out).Encode(limitsShown{state.Limits{Limits: fleet.Limits}, problemsShown(stuck)})
		}
		printLimits(screenOf(env), state.Limits{Limits: fleet.Limits})
		printStuck(screenOf(env), fleet.Limits, stuck)
		return nil
	}
	return c
}

// limitsShown is what `headway limits show --json` prints.
type limitsShown struct {
	state.Limits

	Problems []problemShown `json:"problems,omitempty"` // the worst first
}

// problemShown is what does not go on, in the words of the page.
type problemShown struct {
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Bucket   string `json:"bucket,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Tasks    int    `json:"tasks"`
	What     string `json:"what"`
	Remedy   string `json:"remedy"`
}

// problemsShown leaves out what is only worth a look.
func problemsShown(problems []state.Problem) (all []problemShown) {
	for _, p := range problems {
		if p.Severity != state.News {
			what, remedy := explained.Problem(p)
			all = append(all, problemShown{
				Kind: string(p.Kind), Severity: string(p.Severity), Bucket: p.Bucket, Queue: p.Queue, Tasks: p.Tasks, What: what,
				Remedy: remedy,
			})
		}
	}
	return all
}

// rateText is the present rate as headway.yaml has it, and the bounds of an adaptive one.
func rateText(m reservations.MeterView) string {
	text := cli.Rate(m.Current, m.Period)
	if m.Adaptive.Max > 0 {
		text += fmt.Sprintf(" (%s to %s)", cli.Amount(m.Rate), cli.Amount(m.Adaptive.Max))
	}
	if m.Kind == reservations.KindWindow {
		text += " window"
	}
	return text
}
