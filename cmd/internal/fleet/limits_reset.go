package fleet

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/reservations"
)

func limitsResetCommand(env cli.Environment) *cobra.Command {
	return bucketCommand(env, reset, &cobra.Command{
		Use:   "reset LIMIT[:KEY]",
		Short: "Make a bucket full again, and end its block and its debt",
		Long: `Reset forgets what was taken from a bucket: its level, its promises, its debt and a block. Waiting tasks
start at once, in their order, as far as a full bucket goes.

The provider does not forget: it may refuse what starts now, as it may have counted all that was taken
before. Reset a bucket when the provider has done so too, after a limit of a day was lowered by mistake, or
when the document of the bucket is corrupt. To end only a block, use "limits unblock".`,
		Example: `  headway limits reset openai
  headway limits reset openai:acme`,
	})
}

func reset(ctx context.Context, l *reservations.Limiter, at reservations.Charge) (string, error) {
	return at.Bucket() + " is full again", l.Reset(ctx, at.Limit, at.Key)
}

func limitsUnblockCommand(env cli.Environment) *cobra.Command {
	return bucketCommand(env, unblock, &cobra.Command{
		Use:   "unblock LIMIT[:KEY]",
		Short: "End the block of a bucket: waiting tasks start at once",
		Long: `Unblock ends the time for which nothing starts in a bucket because a provider refused a call and named a
time (Retry-After). Waiting tasks start at once, in their order, at the rate of the limit.

It also forgets what the provider refused before, also of a quota or a key, and gives back what headers of
the provider took from the bucket (x-ratelimit-remaining-requests: 0).

A bucket is empty when it is blocked, so no burst follows. If the provider still refuses, the next call
blocks the bucket again. How long one refusal blocks at most is max_block in headway.yaml.`,
		Example: `  headway limits unblock openai
  headway limits unblock openai:acme`,
	})
}

func unblock(ctx context.Context, l *reservations.Limiter, at reservations.Charge) (string, error) {
	v, err := l.View(ctx, at.Limit, at.Key)
	if err != nil {
		return "", err
	}
	_, err = l.Unblock(ctx, at.Limit, at.Key)
	if v.Blocked == 0 {
		return at.Bucket() + " is not blocked; what headers of the provider took from it is back", err
	}
	return fmt.Sprintf("%s is not blocked any more: %s were left", at.Bucket(), cli.Seconds(v.Blocked.Seconds())), err
}

// bucketCommand is a command that changes one bucket.
func bucketCommand(env cli.Environment, change bucketChange, c *cobra.Command) *cobra.Command {
	var file string
	c.Args = cli.Named("LIMIT or LIMIT:KEY")
	configFlag(c, &file)
	c.RunE = func(c *cobra.Command, args []string) error {
		return changeBucket(c.Context(), env, file, args[0], change)
	}
	return c
}

// bucketChange changes a bucket, and returns the text for people.
type bucketChange func(context.Context, *reservations.Limiter, reservations.Charge) (string, error)

// changeBucket changes one bucket, and lets its waiting tasks start by what it is then.
func changeBucket(ctx context.Context, env cli.Environment, file, name string, change bucketChange) error {
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	at := reservations.ParseBucket(name)
	if _, err = c.Checker().Limits().For(at.Limit, ""); err != nil {
		return err
	}
	if err = reservations.ValidateCharges([]reservations.Charge{at}); err != nil {
		return &cli.UsageError{Err: err}
	}
	if at.Shard != 0 {
		return cli.Usage("%q is one shard; all shards of a bucket are changed together: name %q", name,
			bucket.Name(at.Limit, at.Key))
	}
	s, err := session.Open(ctx, env, c, session.Needs{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	text, err := change(ctx, s.Limiter, at)
	if err != nil {
		return err
	}
	if err = announce(ctx, s, at); err != nil {
		return fmt.Errorf("%s, but waiting tasks could not be moved forward: %w", cli.Printable(text), err)
	}
	_, err = fmt.Fprintln(env.Out, cli.Printable(text))
	return err
}

// announce sends the states of a bucket's shards to the dispatcher, which plans again with them.
func announce(ctx context.Context, s *session.Session, at reservations.Charge) error {
	outcomes, err := s.Limiter.Refresh(ctx, at)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		s.Scheduler.Changed(o.Charge.Bucket(), o)
	}
	return s.Scheduler.Stop(ctx)
}
