package cli

import (
	"errors"
	"os"
	"strings"
	"unicode"
)

// trimmed returns the variables without line ends and spaces around them, as secrets in files have: a database, a key
// or a password with a line end is another one.
func trimmed(getenv func(string) string) func(string) string {
	return func(name string) string { return strings.TrimSpace(getenv(name)) }
}

// trimProcess does the same in the environment of the process, for the variables that libraries read:
// the variables of OpenTelemetry and of proxies.
func trimProcess() {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		read := strings.HasPrefix(name, "OTEL_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY")
		if plain := strings.TrimSpace(value); read && plain != value {
			_ = os.Setenv(name, plain) // both are valid
		}
	}
}

// errControl says what is wrong with the value of a variable, without the value.
var errControl = errors.New("has a line end or another control character within its value")

// CheckVariable returns a UsageError that names the variable, if its value has a control character: it can't be sent
// in a header or an address.
func CheckVariable(getenv func(string) string, name string) error {
	if strings.ContainsFunc(getenv(name), unicode.IsControl) {
		return Usage("%s %w", name, errControl)
	}
	return nil
}
