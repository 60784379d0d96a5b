package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// flagFault says in plain words which flag is wrong and what it wants. Other faults stay as they are.
func flagFault(err error) error {
	if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
		f := wrong.GetFlag()
		if wants := wanted(f); wants != "" {
			problem := "must be " + wants
			if errors.Is(err, strconv.ErrRange) {
				problem = "is too large or too small; it " + problem
			}
			return fmt.Errorf("--%s: %.80q %s", f.Name, wrong.GetValue(), problem)
		}
	}
	if missing := (*pflag.ValueRequiredError)(nil); errors.As(err, &missing) {
		f := missing.GetFlag()
		if wants := wanted(f); wants != "" {
			return fmt.Errorf("--%s: needs a value, %s", f.Name, wants)
		}
		return fmt.Errorf("--%s: needs a value", f.Name)
	}
	return err
}

// wanted is what a flag takes, with an example; empty where it takes any text.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number, e.g. " + example(f, "20")
	case "float64":
		return "a number, e.g. " + example(f, "1.5")
	case "duration":
		return "a time with its unit, e.g. 90s, 5m or 1h30m"
	case "bool":
		return "true or false"
	}
	return ""
}

// example is a value that the flag would take: its default, or another one where it has none.
func example(f *pflag.Flag, other string) string {
	if f.DefValue == "" || f.DefValue == "0" {
		return other
	}
	return f.DefValue
}
