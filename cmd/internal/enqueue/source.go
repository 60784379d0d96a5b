package enqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/cmd/internal/session"
	rules "github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/reservations"
)

// source makes the tasks of requests. They take from one or several limits, each with a key, the narrowest first, the
// provider's last.
type source struct {
	*target

	config  config.Config // says what workers with the same file may call and send; Queues is nil without a file
	checker *reservations.Limiter
	buckets []bucket
}

// bucket is one LIMIT[:KEY] of the command line.
type bucket struct {
	limit  reservations.Limit
	key    string
	meters []string // of the limit
}

func (b bucket) String() string {
	return reservations.BucketName{Limit: b.limit.Name, Key: b.key}.String()
}

// load reads the configuration, and what the requests take from. A limit that the file lacks is the published one of
// live workers; otherwise load needs no service. Errors of the command line are *cli.UsageError.
func (t *target) load(ctx context.Context, env cli.Environment, model string) (*source, error) {
	c, err := session.Settings(ctx, env, t.file, func(c config.Config) bool {
		t.own = inside.Of(c.Checker()).Limits()
		return t.knownIn(c)
	})
	if err != nil {
		return nil, err
	}
	return t.source(c, model)
}

// place is where a limit is set up: in the file, or by the live workers that have published it.
func (t *target) place(limit string) string {
	if t.own != nil {
		if _, err := t.own.For(limit, ""); err == nil {
			return t.file
		}
	}
	return "the settings of its workers"
}

// knownIn says whether the settings have all limits that the command line names.
func (t *target) knownIn(c config.Config) bool {
	limits := inside.Of(c.Checker()).Limits()
	return !slices.ContainsFunc(t.limits, func(text string) bool {
		name, _, _ := strings.Cut(text, ":")
		_, err := limits.For(name, "")
		return err != nil
	})
}

// source makes the tasks of requests with these settings. Without --limit they take from the limit of the model.
func (t *target) source(c config.Config, model string) (*source, error) {
	if limit, known := c.Providers.LimitOf(model); len(t.limits) == 0 && known {
		t.limits = []string{limit}
	}
	if len(t.limits) == 0 {
		return nil, cli.Usage("--limit is required: name a limit of %s or of live workers, or with --model a model of its "+
			"providers", t.file)
	}
	checker, err := reservations.New(reservations.NoStore(), c.Limits, reservations.Config{})
	if err != nil {
		return nil, err
	}
	s := &source{target: t, config: c, checker: checker}
	if err = s.readLimits(); err != nil {
		return nil, err
	}
	if err = s.checkSharing(); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	return s, nil
}

// readLimits reads what --limit and --key name.
func (s *source) readLimits() error {
	var charges []reservations.Charge
	for i, text := range s.limits {
		name, key, keyed := strings.Cut(text, ":")
		if keyed && key == "" {
			return cli.Usage("--limit %s: a key must follow the colon", text)
		}
		if i == len(s.limits)-1 && s.key != "" {
			if keyed {
				return cli.Usage("--limit %s and --key %s both name the key of the last limit: leave one out", text, s.key)
			}
			key = s.key
		}
		limit, err := inside.Of(s.checker).Limits().For(name, "")
		if err != nil {
			return err
		}
		b := bucket{limit: limit, key: key}
		for _, m := range limit.Meters {
			b.meters = append(b.meters, m.Name)
		}
		s.buckets, charges = append(s.buckets, b), append(charges, reservations.Charge{Limit: name, Key: key})
	}
	if err := envelope.CheckCharges(charges); err != nil {
		return cli.Usage("--limit %s: %w", s, err)
	}
	return nil
}

// checkSharing checks how the requests share the limits.
func (s *source) checkSharing() error {
	headroom, priorities := false, false // of any of the limits
	for _, b := range s.buckets {
		headroom = headroom || rules.Rules(b.limit).HasHeadroom()
		priorities = priorities || len(b.limit.Priorities) > 0
	}
	last := s.buckets[len(s.buckets)-1].limit.Name
	if s.common.Urgent && !headroom {
		return fmt.Errorf("--urgent: no meter of limit %s has headroom; give it some in %s, e.g. headroom: 50", s,
			s.place(last))
	}
	if s.common.Priority != "" && !priorities {
		return fmt.Errorf("--priority %s: limit %s has no priorities; name them in %s, "+
			"e.g. priorities: {interactive: 9, batch: 1}", s.common.Priority, s, s.place(last))
	}
	for _, b := range s.buckets {
		nothing := reservations.Tokens{}
		for _, meter := range b.meters {
			nothing[meter] = 0
		}
		if err := s.checker.Validate(reservations.Charge{
			Limit: b.limit.Name, Key: b.key, Tokens: nothing,
			Urgent: s.common.Urgent, Flow: s.common.Flow, Priority: s.common.Priority,
		}); err != nil {
			return err
		}
	}
	return nil
}

// warnOfQueue warns of a queue that the file does not have.
func (s *source) warnOfQueue(env cli.Environment) {
	if _, served := s.config.Queues[s.queue]; !served && s.config.Queues != nil {
		cli.Warn(env, "%s has no queue %q, and only a worker with a file that has it takes from there%s", s.file, s.queue,
			nearest.Hint(s.queue, slices.Collect(maps.Keys(s.config.Queues))))
	}
}

// String is the buckets as the command line has them, in its order.
func (s *source) String() string {
	names := make([]string, len(s.buckets))
	for i, b := range s.buckets {
		names[i] = b.String()
	}
	return strings.Join(names, batches.LimitsBetween)
}

// name says what a batch is: the same content, sent to the same limits and model, is the same batch. Of several batches
// with the same content, n counts from 1.
func (s *source) name(hash string, n int) (id string, err error) {
	for _, b := range s.buckets {
		if strings.Contains(b.String(), batches.LimitsBetween) {
			return "", cli.Usage("--limit %s: the key of a batch can't hold %q", b, batches.LimitsBetween)
		}
	}
	text := "headway batch 1\n" + hash + "\n" + s.String() + "\n" + s.model
	if n > 1 {
		text += fmt.Sprintf("\n%d", n)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8]), nil
}
