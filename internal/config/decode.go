package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/headway-go/headway/reservations"
)

// rateValue is a rate as people write it: "500/m".
type rateValue struct {
	tokens float64
	period time.Duration
}

// reservedValue is a max_reserved: a number of tokens, or unlimited, which is also what it is when left out.
type reservedValue struct {
	set    bool
	amount float64
}

func (v reservedValue) tokens() float64 {
	if !v.set {
		return reservations.Unlimited
	}
	return v.amount
}

// shorthand reads the values that are more than plain YAML: a meter that is only a rate, a rate, a max_reserved.
func shorthand(_, to reflect.Type, data any) (any, error) {
	switch to {
	case reflect.TypeFor[meterFile]():
		if text, ok := data.(string); ok {
			return map[string]any{"rate": text}, nil
		}
	case reflect.TypeFor[rateValue]():
		text, ok := data.(string)
		if !ok {
			return nil, fmt.Errorf("%v must be a number and a period, e.g. 500/m", data)
		}
		tokens, period, err := parseRate(text)
		return rateValue{tokens: tokens, period: period}, err
	case reflect.TypeFor[reservedValue]():
		return reservedOf(data)
	}
	return data, nil
}

func reservedOf(data any) (reservedValue, error) {
	switch v := data.(type) {
	case string:
		if v == "unlimited" {
			return reservedValue{}, nil
		}
	case uint64:
		return reservedValue{set: true, amount: float64(v)}, nil
	case int64:
		return reservedValue{set: true, amount: float64(v)}, nil
	case float64:
		return reservedValue{set: true, amount: v}, nil
	}
	return reservedValue{}, fmt.Errorf("%v must be a number of tokens or unlimited", data)
}

// duration reads "30s"; a bare number says nothing about its unit and is refused.
func duration(_, to reflect.Type, data any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() {
		return data, nil
	}
	text, ok := data.(string)
	if !ok {
		return nil, fmt.Errorf("%v must be a duration with a unit, e.g. 30s", data)
	}
	return time.ParseDuration(text)
}

// decodeFaults words what the decoder found by the path of the field.
func decodeFaults(err error) error {
	if err == nil {
		return nil
	}
	var faults []error
	walk(err, func(e error) { faults = append(faults, fieldFault(e)) })
	return errors.Join(faults...)
}

// walk visits the errors below err that are not lists of errors themselves.
func walk(err error, visit func(error)) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if many, ok := inner.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e, visit)
			}
			return
		}
	}
	visit(err)
}

func fieldFault(err error) error {
	d := (*mapstructure.DecodeError)(nil)
	if !errors.As(err, &d) {
		return err
	}
	field := strings.NewReplacer("[", ".", "]", "").Replace(d.Name())
	if field == "" {
		field = "file"
	}
	problem := d.Unwrap().Error()
	if unknown, ok := strings.CutPrefix(problem, "has invalid keys: "); ok {
		problem = "there is no setting named " + unknown
	}
	return &reservations.FieldError{Field: field, Problem: problem}
}
