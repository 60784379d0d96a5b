package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/internal/text/period"
	"github.com/headway-go/headway/reservations"
)

// rateValue is a rate in a file: "500/m".
type rateValue struct {
	tokens float64
	period time.Duration
}

// reservedValue is a max_reserved: a number of tokens, or unlimited, which is the default.
type reservedValue float64

// capacityValue is a capacity: nothing is one period's worth, and zero no burst.
type capacityValue float64

// shorthand decodes values with a syntax of their own: a meter that is only a rate, a rate, a capacity, a
// max_reserved, a window, a duration.
func shorthand(_, to reflect.Type, data any) (any, error) {
	switch to {
	case reflect.TypeFor[meterFile]():
		switch data.(type) {
		case string, map[string]any:
		default:
			return nil, fmt.Errorf(
				"%v must be a rate (%s) or a map with rate or adaptive, capacity, max_reserved, window and settle",
				data, examples(fmt.Sprint(data)))
		}
		if text, ok := data.(string); ok {
			return map[string]any{"rate": text}, nil
		}
	case reflect.TypeFor[rateValue]():
		text, ok := data.(string)
		if !ok {
			return nil, fmt.Errorf("%v must be a number, a slash and a period: %s", data, examples(fmt.Sprint(data)))
		}
		tokens, period, err := ParseRate(text)
		return rateValue{tokens: tokens, period: period}, err
	case reflect.TypeFor[adaptiveFile]():
		if _, ok := data.(map[string]any); !ok {
			return nil, fmt.Errorf("%v must be a map with min, max and ramp", data)
		}
	case reflect.TypeFor[capacityValue]():
		if n, ok := numberOf(data).(float64); ok {
			return capacityValue(cmp.Or(n, reservations.None)), nil
		}
	case reflect.TypeFor[reservedValue]():
		return reservedOf(data)
	case reflect.TypeFor[windowValue]():
		return windowOf(data)
	case reflect.TypeFor[time.Duration]():
		text, ok := data.(string)
		if !ok {
			return nil, fmt.Errorf("%v must be a duration with a unit, e.g. 30s", data)
		}
		return period.Parse(text)
	case reflect.TypeFor[map[string][]string]():
		if _, ok := data.(map[string]any); !ok {
			return nil, errors.New("must be a map of names to hosts, e.g. API_KEY: [a.example.com]") // without data
		}
	case reflect.TypeFor[float64]():
		return numberOf(data), nil
	case reflect.TypeFor[int]():
		if n, ok := data.(float64); ok && n != math.Trunc(n) { // decoding would drop the fraction
			return nil, fmt.Errorf("%v must be a whole number", data)
		}
	}
	return data, nil
}

// numberOf returns the number in a quoted text, and other data unchanged.
func numberOf(data any) any {
	if n, err := strconv.ParseFloat(fmt.Sprint(data), 64); err == nil {
		return n
	}
	return data
}

func reservedOf(data any) (reservedValue, error) {
	if data == "unlimited" {
		return 0, nil
	}
	if n, ok := numberOf(data).(float64); ok {
		return reservedValue(cmp.Or(n, reservations.None)), nil
	}
	return 0, fmt.Errorf("%v must be a number of tokens or unlimited", data)
}

// decode decodes all valid values, and lists invalid values and unknown settings.
func decode(raw map[string]any) (f file, faults []error) {
	into := func(f *file, strict bool) error {
		decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
			Result: f, ErrorUnused: strict, DecodeHook: shorthand,
		})
		if err != nil {
			return err
		}
		return decoder.Decode(raw)
	}
	walk(into(&file{}, true), func(e error) { faults = append(faults, fieldFault(e)) })
	if limits, ok := raw["limits"].(map[string]any); ok {
		faults = append(faults, without("limits", limits)...)
	}
	// The first pass skips settings beside an unknown one, so their faults would be missing. The second pass decodes
	// them; its errors are listed already.
	f.Concurrency = settings.Concurrency
	_ = into(&f, false)
	f.unread = slices.ContainsFunc(faults, func(err error) bool {
		u, ok := errors.AsType[*reservations.FieldError](err)
		return ok && within(u.Field, "limits") && !strings.HasPrefix(u.Problem, noSetting)
	})
	return f, faults
}

// without lists the settings of limits without a value: decoding would take them as left out, so that e.g. a forgotten
// number of in_flight would be no limit.
func without(path string, limits map[string]any) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		field := path + "." + name
		if below, ok := limits[name].(map[string]any); ok {
			faults = append(faults, without(field, below)...)
		} else if limits[name] == nil {
			faults = append(faults, &reservations.FieldError{
				Field: shortened(field), Problem: "has no value: give it one, or remove it",
			})
		}
	}
	return faults
}

// others returns the faults that do not follow from undecoded values.
func others(faults, undecoded []error) []error {
	return slices.DeleteFunc(faults, func(err error) bool {
		f := (*reservations.FieldError)(nil)
		return errors.As(err, &f) && slices.ContainsFunc(undecoded, func(err error) bool {
			u := (*reservations.FieldError)(nil)
			return errors.As(err, &u) && !strings.HasPrefix(u.Problem, noSetting) &&
				(within(u.Field, f.Field) || within(f.Field, u.Field))
		})
	})
}

// within returns whether field a is b or is below b.
func within(a, b string) bool { return a == b || strings.HasPrefix(a, b+".") }

// walk visits the single errors that err joins.
func walk(err error, visit func(error)) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if many, ok := inner.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				walk(e, visit)
			}
			return
		}
	}
	if err != nil {
		visit(err)
	}
}

// noSetting is the beginning of the fault of an unknown key.
const noSetting = "there is no setting named "

// wanted names a kind of value in the words of YAML.
func wanted(kind reflect.Kind) string {
	words := map[reflect.Kind]string{
		reflect.Int: "a whole number", reflect.Float64: "a number", reflect.String: "a text", reflect.Map: "a map",
		reflect.Struct: "a map",
	}
	if word, ok := words[kind]; ok {
		return word
	}
	return kind.String()
}

func fieldFault(err error) error {
	d := (*mapstructure.DecodeError)(nil)
	if !errors.As(err, &d) {
		return err
	}
	field := strings.NewReplacer("[", ".", "]", "").Replace(d.Name())
	problem := d.Unwrap().Error()
	if unknown, ok := strings.CutPrefix(problem, "has invalid keys: "); ok {
		problem = noSetting + unknown + nearest.Hint(unknown, settingsOf(d.Name()))
		if field == "" || field == reflect.TypeFor[file]().String() {
			return errors.New(shortened(problem))
		}
	}
	if wrong := (*mapstructure.UnconvertibleTypeError)(nil); errors.As(err, &wrong) {
		problem = fmt.Sprintf("%v must be %s", wrong.Value, wanted(wrong.Expected.Kind()))
		if within(field, "http") || within(field, "providers") { // the value may be a secret
			problem = "must be " + wanted(wrong.Expected.Kind())
		}
	}
	return &reservations.FieldError{Field: shortened(field), Problem: shortened(problem)}
}

var pathSteps = regexp.MustCompile(`\[[^\]]*\]|[^.[\]]+`)

// settingsOf returns the settings of the map at a path such as limits[openai].meters[tokens]; any other path is that of
// the whole file.
func settingsOf(path string) (names []string) {
	of := reflect.TypeFor[file]()
	for _, step := range pathSteps.FindAllString(path, -1) {
		if of.Kind() == reflect.Map {
			of = of.Elem()
		} else if of.Kind() == reflect.Struct {
			for _, f := range reflect.VisibleFields(of) {
				if f.Tag.Get("mapstructure") == step {
					of = f.Type
					break
				}
			}
		}
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
	}
	if of.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(of) {
			if f.IsExported() && !f.Anonymous {
				names = append(names, f.Tag.Get("mapstructure"))
			}
		}
	}
	return names
}
