package enqueue

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// source is what the requests take from: one or several limits, each with a key, the narrowest first, the provider's
// last.
type source struct {
	checker *reservations.Limiter
	buckets []bucket
	common  tasks.Terms // how the requests share the limits: Urgent, Flow, Priority

	// what workers with the same file may call and send
	http      config.HTTP
	providers config.Providers
}

// bucket is one LIMIT[:KEY] of the command line.
type bucket struct {
	limit  reservations.Limit
	key    string
	meters []string // of the limit
}

func (b bucket) String() string { return reservations.Charge{Limit: b.limit.Name, Key: b.key}.Bucket() }

// newSource reads what --limit and --key name. Errors of the command line are *cli.UsageError.
func newSource(limits []reservations.Limit, named []string, key string) (*source, error) {
	checker, err := reservations.New(nil, limits, reservations.Config{})
	if err != nil {
		return nil, err
	}
	s := &source{checker: checker}
	charges := make([]reservations.Charge, len(named))
	for i, text := range named {
		name, own, keyed := strings.Cut(text, ":")
		if keyed && own == "" {
			return nil, cli.Usage("--limit %s: a key must follow the colon", text)
		}
		if i == len(named)-1 && key != "" {
			if keyed {
				return nil, cli.Usage("--limit %s and --key %s both name the key of the last limit: leave one out", text, key)
			}
			own = key
		}
		limit, err := checker.Limits().For(name, "")
		if err != nil {
			return nil, err
		}
		b := bucket{limit: limit, key: own}
		for _, m := range limit.Meters {
			b.meters = append(b.meters, m.Name)
		}
		s.buckets, charges[i] = append(s.buckets, b), reservations.Charge{Limit: name, Key: own}
	}
	if err := envelope.CheckCharges(charges); errors.Is(err, tasks.ErrDuplicateCharge) {
		return nil, cli.Usage("--limit names a bucket twice: %s", s)
	} else if err != nil {
		return nil, cli.Usage("--limit: %w", err)
	}
	return s, nil
}

// String is the buckets as the command line has them, in its order.
func (s *source) String() string {
	names := make([]string, len(s.buckets))
	for i, b := range s.buckets {
		names[i] = b.String()
	}
	return strings.Join(names, batches.LimitsBetween)
}

// errLarge is a request that reserves more than a capacity.
var errLarge = errors.New("above the capacity")

// fits returns an error that matches errLarge if the task reserves more than the capacity of a meter. A pure queue has
// no capacity to exceed.
func (s *source) fits(task tasks.Charger) error {
	for _, charge := range task.Charges() {
		limit, err := s.checker.Limits().For(charge.Limit, "")
		if err != nil {
			return nil //nolint:nilerr // valid names the limit
		}
		for _, m := range limit.Meters {
			if n := charge.Tokens[m.Name]; m.Cap() > 0 && n > m.Cap() {
				return fmt.Errorf("reserves %s %s, %w of %s of limit %s: it would wait for a full bucket, and all others "+
					"until that is paid back; --allow-large sends it", cli.Amount(n), m.Name, errLarge, cli.Amount(m.Cap()),
					limit.Name)
			}
		}
	}
	return nil
}
