package fleet

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/cli"
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
then the ten flows that have most tasks there, a block, a rate that was set, and a bucket that could not be asked.

Without an argument it shows all limits of the file: the bucket that all keys share, and the buckets of keys for which
tasks wait. It changes nothing.`,
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
		shown, err := s.Reader().Read(c.Context(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		if asJSON {
			return cli.JSON(env.Out).Encode(shown)
		}
		printLimits(screenOf(env), shown)
		return nil
	}
	return c
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
