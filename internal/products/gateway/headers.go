package gateway

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
)

// cleanAnswer takes out what is about the gateway's own account and connection.
func cleanAnswer(h http.Header) {
	for name := range h {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "ratelimit") || strings.HasPrefix(lower, "headway-") {
			h.Del(name)
		}
	}
	for _, name := range []string{
		"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Openai-Organization", "Openai-Project",
		"Anthropic-Organization-Id", "Www-Authenticate", "Location",
	} {
		h.Del(name)
	}
}

// showLimits sets the headers about the shared buckets, as the provider of a family would. Of several buckets the one
// counts that has least left.
func showLimits(h http.Header, of family, outcomes []reservations.Outcome) {
	for _, kind := range []struct{ meter, name string }{
		{openai.MeterRequests, "Requests"},
		{openai.MeterTokens, "Tokens"},
		{openai.MeterInput, "Input-Tokens"},
		{openai.MeterOutput, "Output-Tokens"},
	} {
		least, capacity, reset := math.Inf(1), 0., time.Duration(0)
		var at time.Time
		for _, o := range outcomes {
			for _, m := range o.Bucket.Meters {
				if left, ok := o.Remaining()[m.Name]; ok && m.Name == kind.meter && left < least {
					least, capacity, at = left, m.Filling.Capacity, o.At
					reset = o.Bucket.Until(m, m.Filling.Capacity-m.Reserved)
				}
			}
		}
		if math.IsInf(least, 1) {
			continue
		}
		limit, left := whole(capacity), whole(least)
		if of == familyAnthropic {
			name := "Anthropic-Ratelimit-" + kind.name
			h.Set(name+"-Limit", limit)
			h.Set(name+"-Remaining", left)
			h.Set(name+"-Reset", at.Add(reset).UTC().Format(time.RFC3339))
			continue
		}
		h.Set("X-Ratelimit-Limit-"+kind.name, limit)
		h.Set("X-Ratelimit-Remaining-"+kind.name, left)
		h.Set("X-Ratelimit-Reset-"+kind.name, max(0, reset).Round(time.Millisecond).String())
	}
}

func whole(n float64) string { return strconv.FormatFloat(math.Floor(n), 'f', 0, 64) }
