package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

const (
	// horizonsApart is how many times further one meter may promise ahead than another before that is worth a warning.
	horizonsApart = 10
	// headroomLeast is how much of the rate a headroom should hold: urgent tasks that arrive within it start at once.
	headroomLeast = 250 * time.Millisecond
)

// Warnings says, one sentence each, what of a valid limit is allowed and probably not meant. The shortest horizon of
// all meters holds for all of them, so where horizons are far apart the longer ones have no effect. A headroom may be
// too large or too small.
func Warnings(l reservations.Limit) (warnings []string) {
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("limit %q: ", l.Name)+fmt.Sprintf(format, args...))
	}
	for _, m := range l.Meters {
		if meant := openai.Meant(m.Name); meant != "" && m.Kind != reservations.KindInFlight {
			warn("calls of language models are not charged for a meter %s, so each of them is refused; did you mean %q?",
				m.Name, meant)
		}
	}
	rules := bucket.Rules(l)
	horizon := func(k int) float64 { return rules.Meters[k].MaxReserved / rules.Meters[k].RatePerSecond() }
	var bounded []int
	for k, m := range l.Meters {
		if m.MaxReserved != 0 && m.Kind != reservations.KindInFlight {
			bounded = append(bounded, k)
		}
	}
	slices.SortStableFunc(bounded, func(a, b int) int { return cmp.Compare(horizon(a), horizon(b)) })
	if n := len(bounded); n > 1 && horizon(bounded[n-1]) > horizonsApart*horizon(bounded[0]) {
		near, far := bounded[0], bounded[n-1]
		ahead := func(k int) time.Duration {
			return time.Duration(min(horizon(k), bucket.MaxWait.Seconds()) * float64(time.Second)).Round(time.Millisecond)
		}
		warn("max_reserved of %s is %v ahead, that of %s %v: the shorter one counts for both; max_wait bounds all meters "+
			"alike", l.Meters[near].Name, ahead(near), l.Meters[far].Name, ahead(far))
	}
	if l.OrdinaryShare != 0 && !rules.HasHeadroom() {
		warn("ordinary_share has no effect without the headroom of a meter")
	}
	for k, m := range l.Meters {
		switch least := rules.Meters[k].RatePerSecond() * headroomLeast.Seconds(); {
		case m.Headroom == 0:
		case m.Headroom > m.Cap()/2:
			warn("the headroom of %s is more than half of its capacity (%v of %v): ordinary tasks of %v and more start only "+
				"when the bucket is full", m.Name, m.Headroom, m.Cap(), m.Cap()-m.Headroom)
		case m.Headroom < least:
			warn("the headroom of %s is less than what comes back in %v (%v of %v): urgent tasks will often wait",
				m.Name, headroomLeast, m.Headroom, math.Ceil(least*100)/100)
		}
	}
	return warnings
}
