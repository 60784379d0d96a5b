package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
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
		Args: cobra.MaximumNArgs(1),
	}
	configFlag(c, &file)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		settings, err := config.Load(file)
		if err != nil {
			return err
		}
		s, err := openSight(c.Context(), settings, env)
		if err != nil {
			return err
		}
		defer s.close()
		shown, err := s.reader().Read(c.Context(), strings.Join(args, ""))
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

// sight is what a command needs that looks and changes nothing.
type sight struct {
	limiter   *reservations.Limiter
	scheduler *scheduler.Scheduler
	queue     redis.UniversalClient
	buckets   *connect.Buckets
	close     func()
}

func (s *sight) reader() overview.Reader {
	return overview.Reader{Limiter: s.limiter, Scheduler: s.scheduler}
}

// openSight connects to both services.
func openSight(ctx context.Context, settings config.Config, env cli.Environment) (*sight, error) {
	queue, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return nil, err
	}
	s, err := openBuckets(ctx, settings, env, queue)
	if err != nil {
		_ = queue.Close()
		return nil, err
	}
	buckets := s.close
	s.close = func() {
		buckets()
		_ = queue.Close()
	}
	return s, nil
}

// openBuckets is openSight with a queue that is connected already, and stays the caller's.
func openBuckets(
	ctx context.Context, settings config.Config, env cli.Environment, queue redis.UniversalClient,
) (*sight, error) {
	buckets, err := connect.Open(ctx, env.Getenv, settings.Buckets, queue, env.Err)
	if err != nil {
		return nil, err
	}
	s := &sight{queue: queue, buckets: buckets, close: func() { _ = buckets.Close(context.WithoutCancel(ctx)) }}
	s.limiter, err = buckets.Limiter(ctx, settings.Limits, func(err error) { cli.Warn(env, "%v", err) })
	if err == nil {
		s.scheduler, err = scheduler.New(queue, s.limiter, scheduler.Config{})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// rateText is the present rate as headway.yaml has it, and the bounds of an adaptive one.
func rateText(m reservations.MeterView) string {
	text := cli.Rate(m.Current, m.Period)
	if m.Adaptive.Max > 0 {
		text += fmt.Sprintf(" (%s to %s)", cli.Amount(m.Rate), cli.Amount(m.Adaptive.Max))
	}
	return text
}
