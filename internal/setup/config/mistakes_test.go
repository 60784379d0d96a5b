package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/setup/config"
)

// Values that readers of YAML, or people, mean differently are faults. A new slip is one row.
func TestSlips(t *testing.T) {
	t.Parallel()
	const meters = "limits: {a: {meters: {requests: {rate: 5/s, capacity: "
	const provided = "providers: {p: {base_url: \"https://host/v1\", limits: [a]}}\nlimits: {a: {meters: {"
	for text, want := range map[string]string{
		meters + "010}}}}":                    "line 1: 010 is octal for some readers of YAML",
		meters + "-010}}}}":                   "-010 is octal",
		meters + "00}}}}":                     "00 is octal",
		"concurrency: 020":                    "020 is octal",
		"queues: {a: 007}":                    "007 is octal",
		meters + "+010}}}}":                   "+010 is octal",
		meters + "0_10}}}}":                   "0_10 is octal",
		meters + "010.5}}}}":                  "",
		meters + "08}}}}":                     "",
		meters + "0o10}}}}":                   "",
		meters + "1e3}}}}":                    "",
		meters + "ten}}}}":                    "must be a number",
		meters + "12:30}}}}":                  "must be a number",
		meters + ".inf}}}}":                   "capacity",
		meters + ".nan}}}}":                   "capacity",
		meters + "\"010\"}}}}":                "",
		meters + "0}}}}":                      "",
		meters + "0.5}}}}":                    "",
		meters + "1_000}}}}":                  "",
		"\x1f\x8b\x08\x00":                    "is a gzip file, not YAML: unpack it first",
		"PK\x03\x04":                          "is a zip file",
		provided + "rpm: 5/m}}}":              `limits.a.meters.rpm: calls of provider p are not charged for it; did you`,
		provided + "tpm: 5/m}}}":              `did you mean "tokens"?`,
		provided + "TPD: 5/d}}}":              `did you mean "tokens_per_day"?`,
		provided + "itpm: 5/m}}}":             `did you mean "input_tokens"?`,
		provided + "requests_per_min: 5/m}}}": `did you mean "requests"?`,
		provided + "rate_limit: 5/m}}}":       "",
		provided + "Tokens: 5/m}}}":           `did you mean "tokens"?`,
		provided + "tokens_per_min: 5/m}}}":   `did you mean "tokens"?`,
		provided + "output_tpm: 5/m}}}":       `did you mean "output_tokens"?`,
		provided + "inputs: 5/m}}}":           `did you mean "input_tokens"?`,
		provided + "token: 5/m}}}":            `did you mean "tokens"?`,
		provided + "images: 5/m}}}":           "",
		provided + "tokens: 5/m}}}":           "",
		"limits: {a: {meters: {rpm: 5/m}}}":   "", // perhaps of a program
	} {
		_, err := config.Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	c, err := config.Parse([]byte("limits: {a: {meters: {rpm: 5/m, tokens: 10/m}, in_flight: 2}}"))
	if err != nil {
		t.Fatal(err)
	}
	if w := config.Warnings(c.Limits[0]); len(w) != 1 || !strings.Contains(w[0], `did you mean "requests"?`) {
		t.Errorf("%q", w)
	}
}

func TestDurationsInDays(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {max_wait: 1d, max_block: 0.5d, meters: {requests: 5/2d}}}"))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	if l := c.Limits[0]; l.MaxWait != day || l.MaxBlock != day/2 || l.Meters[0].Period != 2*day {
		t.Errorf("%+v", l)
	}
}

// A file in UTF-16 is YAML too.
func TestUTF16(t *testing.T) {
	t.Parallel()
	text := []byte("\xff\xfe")
	for _, c := range []byte("limits: {a: {meters: {r: 5/s}}}") {
		text = append(text, c, 0)
	}
	if _, err := config.Parse(text); err != nil {
		t.Error(err)
	}
}
