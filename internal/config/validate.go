package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// validate lists the faults of well-formed settings.
func (f file) validate() []error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Limits)) {
		var found []error
		if err := f.Limits[name].limit(name).Validate(); err != nil {
			found = prefixed("limits."+name, f.Limits[name].Meters, err)
		}
		for _, meter := range slices.Sorted(maps.Keys(f.Limits[name].Meters)) {
			path := "limits." + name + ".meters." + meter
			if own := f.Limits[name].Meters[meter].adaptiveFaults(path); own != nil {
				found = append(notWithin(found, path), own...)
			}
		}
		faults = append(faults, found...)
	}
	if b := f.Buckets; b != "" && b != BucketsMongoDB && b != BucketsRedis {
		fault("buckets", "%q must be %s or %s", b, BucketsMongoDB, BucketsRedis)
	}
	if f.Concurrency == 0 {
		fault("concurrency", "0 would run no task: must be at least 1; leave it out for %d", worker.ConcurrencyDefault)
	}
	faults = append(faults, below("", worker.Config{
		Concurrency: f.Concurrency, Queues: f.Queues, ShutdownTimeout: f.ShutdownTimeout, MaxRefusals: f.MaxRefusals,
	}.Validate())...)
	faults = append(faults, f.providerFaults()...)
	_, err := web.NewClient(f.HTTP.Client(func(string) string { return "" }))
	faults = append(faults, below("http.", err)...)
	for _, name := range f.Estimates.Learn {
		if _, ok := f.Limits[name]; !ok {
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
	return append(faults, f.recurringFaults()...)
}

// below returns the faults of fields that err joins, each with path before its field.
func below(path string, err error) (faults []error) {
	walk(err, func(e error) {
		if f := (*reservations.FieldError)(nil); errors.As(e, &f) {
			faults = append(faults, &reservations.FieldError{Field: path + f.Field, Problem: f.Problem})
		}
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
