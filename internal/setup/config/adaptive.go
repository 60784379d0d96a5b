package config

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// adaptiveFile has a meter find its rate.
type adaptiveFile struct {
	Min  rateValue     `mapstructure:"min"`
	Max  rateValue     `mapstructure:"max"`
	Ramp time.Duration `mapstructure:"ramp"`
}

// rate is the rate of the meter, and what it may find above that in the same period.
func (m meterFile) rate() (rateValue, reservations.Adaptive) {
	if m.Adaptive == nil {
		return m.Rate, reservations.Adaptive{}
	}
	low, high := m.Adaptive.Min, m.Adaptive.Max
	if high.period != low.period && high.period > 0 {
		high.tokens *= low.period.Seconds() / high.period.Seconds()
	}
	return low, reservations.Adaptive{Max: high.tokens, Ramp: m.Adaptive.Ramp}
}

// adaptiveFaults are the faults of an adaptive meter that its limit would not name as the file does.
func (m meterFile) adaptiveFaults(path string) (faults []error) {
	if m.Adaptive == nil {
		return nil
	}
	fault := func(field, problem string) {
		faults = append(faults, &reservations.FieldError{Field: path + field, Problem: problem})
	}
	low, high := m.Adaptive.Min, m.Adaptive.Max
	_, found := m.rate()
	switch {
	case !(low.tokens > 0 && low.period > 0):
		fault(".adaptive.min", "must be there and positive, e.g. 10/m")
	case !(high.tokens > 0 && high.period > 0):
		fault(".adaptive.max", "must be there and positive, e.g. 500/m")
	case found.Max < low.tokens:
		fault(".adaptive.min", fmt.Sprintf("%s is above max, %s",
			bucket.RateText(low.tokens, low.period), bucket.RateText(high.tokens, high.period)))
	}
	if m.Rate != (rateValue{}) {
		fault(".rate", "can't be given together with adaptive, which begins at min and finds it")
	}
	return faults
}
