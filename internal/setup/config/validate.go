package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/web"
)

// validate lists the faults of well-formed settings, of which c is made. The faults of recurring tasks are known.
func (f file) validate(c Config) []error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	for _, l := range c.Limits {
		meters := f.Limits[l.Name].Meters
		found := below("limits."+l.Name, l.Validate(), slices.Collect(maps.Keys(meters))...)
		for _, meter := range slices.Sorted(maps.Keys(meters)) {
			path := "limits." + l.Name + ".meters." + meter
			if meter == reservations.MeterInFlight {
				found = append(notWithin(found, path), inFlightFault(path, meters[meter]))
			}
			if own := meters[meter].adaptiveFaults(path); own != nil {
				found = append(notWithin(found, path), own...)
			}
		}
		faults = append(faults, found...)
		if flows := f.Limits[l.Name].Flows; flows != "" && flows != flowsTask && flows != flowsTenant {
			fault("limits."+l.Name+".flows", "%.64q must be %q or %q", flows, flowsTask, flowsTenant)
		}
	}
	if b := f.Buckets; b != "" && b != BucketsMongoDB && b != BucketsRedis {
		fault("buckets", "%q must be %s or %s", b, BucketsMongoDB, BucketsRedis)
	}
	if f.Concurrency == 0 {
		fault("concurrency", "0 would run no task: must be at least 1; leave it out for %d", settings.Concurrency)
	}
	faults = append(faults, settings.Settings{
		Concurrency: f.Concurrency, Queues: f.Queues, ShutdownTimeout: f.ShutdownTimeout, MaxRefusals: f.MaxRefusals,
		Unserved: f.Unserved,
	}.Faults()...)
	faults = append(faults, f.providerFaults(c.Providers)...)
	_, err := web.NewClient(f.HTTP.Client(func(string) string { return "" }))
	faults = append(faults, below("http", err)...)
	for _, name := range f.Estimates.Learn {
		if _, ok := f.Limits[name]; !ok && !f.unread {
			fault("estimates.learn", "there is no limit %q", name)
		}
	}
	if q := f.Estimates.Quantile; !(q >= 0 && q <= 1) {
		fault("estimates.quantile", "%v must be above 0 and at most 1", q)
	}
	for _, model := range slices.Sorted(maps.Keys(f.Prices)) {
		if p := f.Prices[model]; !(p.Input >= 0 && p.Output >= 0) || math.IsInf(p.Input+p.Output, 0) {
			fault("prices."+model, "%v and %v must be numbers that are not negative", p.Input, p.Output)
		}
	}
	return faults
}

// inFlightFault is that of calls in flight among the meters.
func inFlightFault(path string, m meterFile) error {
	calls := 5 // an example
	if n := float64(m.Capacity); n >= 1 && n <= bucket.InFlightMost {
		calls = int(n)
	}
	return &reservations.FieldError{Field: path, Problem: fmt.Sprintf(
		"a bound of the calls in flight is no meter: write `in_flight: %d` beside `meters`", calls)}
}

// below returns the faults of fields that err joins, each with path before its field. The fields of the given meters of
// a limit are below meters.
func below(path string, err error, meters ...string) (faults []error) {
	walk(err, func(e error) {
		f, ok := errors.AsType[*reservations.FieldError](e)
		if !ok {
			return // a sentinel such as worker.ErrInvalidConfig
		}
		field := path + "." + f.Field
		if slices.ContainsFunc(meters, func(m string) bool { return strings.HasPrefix(f.Field, m+".") }) {
			field = path + ".meters." + f.Field
		}
		faults = append(faults, &reservations.FieldError{Field: strings.TrimPrefix(field, "."), Problem: f.Problem})
	})
	return faults
}

// notWithin returns the faults that are not of a field, nor of a field below it.
func notWithin(faults []error, field string) []error {
	return slices.DeleteFunc(faults, func(err error) bool {
		f := (*reservations.FieldError)(nil)
		return errors.As(err, &f) && within(f.Field, field)
	})
}
