package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/pflag"
)

// whole is a flag with a whole number. A number that begins with 0 is octal for package pflag, as for some readers of
// YAML, and decimal for people: it is refused.
type whole struct{ pflag.Value }

var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// Set implements pflag.Value.
func (w whole) Set(text string) error {
	if octal.MatchString(text) {
		return fmt.Errorf("%.80q begins with 0", text)
	}
	return w.Value.Set(text)
}

// wholeNumbers makes all flags with whole numbers refuse octal ones.
func wholeNumbers(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if kind := f.Value.Type(); kind == "int" || kind == "int64" {
			f.Value = whole{f.Value}
		}
	})
}
