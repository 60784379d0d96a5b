package headwaytest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Option changes how [Run] makes a fleet.
type Option func(t *testing.T, s *settings)

// settings is what options set.
type settings struct {
	limits  []reservations.Limit
	seed    uint64
	begin   time.Time
	least   time.Duration // of a network delay
	most    time.Duration
	inRedis bool
	log     slog.Handler
	picture string
}

// LimitsFile reads the limits from a headway.yaml.
func LimitsFile(name string) Option {
	return func(t *testing.T, s *settings) {
		t.Helper()
		c, err := config.Load(name)
		if err != nil {
			t.Fatalf("headwaytest: read the limits: %v", err)
		}
		s.limits = append(s.limits, c.Limits...)
	}
}

// Limits adds limits.
func Limits(limits ...reservations.Limit) Option {
	return func(_ *testing.T, s *settings) { s.limits = append(s.limits, limits...) }
}

// Seed is that of all random numbers of the fleet: arrivals, latencies, refusals, delays. Totals hardly differ between
// two runs with one seed; the order of events within some milliseconds may. Defaults to 1.
func Seed(seed uint64) Option {
	return func(_ *testing.T, s *settings) { s.seed = seed }
}

// Begin is the time at which the fleet starts, for daily windows and schedules. It must be from 2002 to 2200. Defaults
// to Monday, 5 January 2026, 09:00 UTC.
func Begin(at time.Time) Option {
	return func(_ *testing.T, s *settings) { s.begin = at }
}

// Network delays each message between a process and Redis or the store of the buckets by a random time from least to
// most. Defaults to no delay.
func Network(least, most time.Duration) Option {
	return func(_ *testing.T, s *settings) { s.least, s.most = least, most }
}

// BucketsInRedis keeps the buckets in Redis. By default they are in a store of their own, as in MongoDB.
func BucketsInRedis() Option {
	return func(_ *testing.T, s *settings) { s.inRedis = true }
}

// Log sends the log of all workers to a handler. By default nothing is logged.
func Log(h slog.Handler) Option {
	return func(_ *testing.T, s *settings) { s.log = h }
}

// Picture writes the report of the fleet's end as an SVG picture.
func Picture(path string) Option {
	return func(_ *testing.T, s *settings) { s.picture = path }
}

// settingsOf returns what options set. It fails the test if that can't be used.
func settingsOf(t *testing.T, play func(f *Fleet), options []Option) settings {
	t.Helper()
	s := settings{seed: 1, begin: time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)}
	problems := []string{given("play", play != nil)}
	for _, o := range options {
		if o == nil {
			problems = append(problems, "an option is nil: leave it out")
			continue
		}
		o(t, &s)
	}
	if year := s.begin.Year(); year < 2002 || year > 2200 {
		problems = append(problems, "Begin is "+s.begin.Format(time.RFC3339)+": must be from 2002 to 2200")
	}
	problems = append(problems, fromZero("least of Network", s.least))
	if s.most < s.least {
		problems = append(problems, "most of Network is "+s.most.String()+": must be at least least, "+s.least.String())
	}
	if _, err := reservations.New(memstore.New(), s.limits, reservations.Config{}); err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		if p != "" {
			t.Fatalf("headwaytest: Run: %s", p)
		}
	}
	return s
}
