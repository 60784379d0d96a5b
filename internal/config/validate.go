package config

import (
	"errors"
	"fmt"
	"math"

	"github.com/headway-go/headway/reservations"
)

// validate lists the faults of well-formed settings.
func (f file) validate() []error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	for _, name := range sortedKeys(f.Limits) {
		l := (*reservations.LimitError)(nil)
		if err := f.Limits[name].limit(name).Validate(); errors.As(err, &l) {
			faults = append(faults, prefixed("limits."+name, f.Limits[name].Meters, l.Err)...)
		}
	}
	if b := f.Buckets; b != "" && b != BucketsMongoDB && b != BucketsRedis {
		fault("buckets", "%q must be %s or %s", b, BucketsMongoDB, BucketsRedis)
	}
	for _, queue := range sortedKeys(f.Queues) {
		if f.Queues[queue] < 1 {
			fault("queues."+queue, "weight %d must be at least 1", f.Queues[queue])
		}
	}
	if f.Concurrency < 0 {
		fault("concurrency", "%d must be positive", f.Concurrency)
	}
	if f.ShutdownTimeout < 0 {
		fault("shutdown_timeout", "%v must be positive", f.ShutdownTimeout)
	}
	if f.MaxRefusals < 0 {
		fault("max_refusals", "%d must not be negative", f.MaxRefusals)
	}
	walk(f.HTTP.Client(func(string) string { return "" }).Validate(), func(e error) {
		if u := (*reservations.FieldError)(nil); errors.As(e, &u) {
			fault("http."+u.Field, "%s", u.Problem)
		}
	})
	for _, name := range f.Estimates.Learn {
		if _, ok := f.Limits[name]; !ok {
			fault("estimates.learn", "there is no limit %q", name)
		}
	}
	if q := f.Estimates.Quantile; !(q >= 0 && q <= 1) {
		fault("estimates.quantile", "%v must be above 0 and at most 1", q)
	}
	for _, model := range sortedKeys(f.Prices) {
		if p := f.Prices[model]; !(p.Input >= 0 && p.Output >= 0) || math.IsInf(p.Input+p.Output, 0) {
			fault("prices."+model, "%v and %v must be numbers that are not negative", p.Input, p.Output)
		}
	}
	limits := make([]reservations.Limit, 0, len(f.Limits))
	for _, name := range sortedKeys(f.Limits) {
		limits = append(limits, f.Limits[name].limit(name))
	}
	for _, name := range sortedKeys(f.Recurring) {
		_, err := f.Recurring[name].recurring(name, limits)
		if err != nil {
			faults = append(faults, prefixed("recurring."+name, nil, err)...)
		}
	}
	return faults
}

// prefixed puts the path of the limit before the field of each of its faults. The fields of a meter are below meters.
func prefixed(path string, meters map[string]meterFile, err error) []error {
	var faults []error
	walk(err, func(e error) {
		f := (*reservations.FieldError)(nil)
		if !errors.As(e, &f) {
			faults = append(faults, fmt.Errorf("%s: %w", path, e))
			return
		}
		field := path + "." + f.Field
		for meter := range meters {
			if within(f.Field, meter) && f.Field != meter {
				field = path + ".meters." + f.Field
			}
		}
		faults = append(faults, &reservations.FieldError{Field: field, Problem: f.Problem})
	})
	return faults
}
