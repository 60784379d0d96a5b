package openai

import (
	"strings"

	"github.com/headway-go/headway/internal/text/nearest"
)

// The meters that headers and answers speak of.
const (
	MeterRequests       = "requests"
	MeterTokens         = "tokens"
	MeterInput          = "input_tokens"
	MeterOutput         = "output_tokens"
	MeterRequestsPerDay = MeterRequests + perDay
	MeterTokensPerDay   = MeterTokens + perDay
)

// Meters are the meters that calls are charged for.
func Meters() []string {
	return []string{
		MeterRequests, MeterTokens, MeterInput, MeterOutput, MeterRequestsPerDay, MeterTokensPerDay,
	}
}

// Meant is the meter that another name means, in the words of providers ("tpm") or misspelt ("token"). It is empty for
// a meter of Meters, and for a name that is near to none.
func Meant(name string) string {
	word := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
	for meter, words := range map[string]string{ //nolint:gosec // no credentials
		MeterRequests: "rpm rps rph req reqs calls requests_per_minute requests_per_min requests_per_second qps qpm",
		MeterTokens:   "tpm tps tph tok toks total_tokens tokens_per_minute tokens_per_min tokens_per_second",
		MeterInput:    "itpm input_tpm input inputs prompt prompt_tokens input_tokens_per_minute input_tokens_per_min",
		MeterOutput: "otpm output_tpm output outputs completion completion_tokens output_tokens_per_minute " +
			"output_tokens_per_min",
		MeterRequestsPerDay: "rpd qpd daily_requests requests_day",
		MeterTokensPerDay:   "tpd daily_tokens tokens_day",
		"in_flight":         "concurrency concurrent concurrent_requests inflight parallel",
	} {
		for one := range strings.FieldsSeq(words) {
			if one == word && meter != name {
				return meter
			}
		}
	}
	if near := nearest.Name(word, Meters()); near != name {
		return near
	}
	return ""
}
