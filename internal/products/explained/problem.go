package explained

import (
	"strings"

	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
)

// Problem is a problem of the fleet with its figures, and what ends it, in two sentences.
func Problem(p state.Problem) (what, remedy string) { return sentence(problem(p)), sentence(p.Remedy) }

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

func problem(p state.Problem) string {
	noun := "task"
	if p.Requests {
		noun = "request"
	}
	lasts := cli.Seconds(p.For.Seconds())
	var details []string
	sign := ", "
	if p.Tasks > 0 {
		details, sign = []string{cli.Plural(p.Tasks, noun+" waits", noun+"s wait")}, ": "
	}
	switch p.Kind { //nolint:exhaustive // of all others it is how many wait
	case state.KindUnread:
		return p.Text + ": " + p.Detail
	case state.KindDiffers:
		return p.Text
	case state.KindDead, state.KindFailed, state.KindStopped: // the text goes on from how many
		return cli.Plural(p.Tasks, noun, noun+"s") + " " + p.Text
	case state.KindBusy:
		details = append(details, "the oldest for "+lasts)
	case state.KindLongWait:
		details = append(details, "the last is expected to start in "+lasts)
	case cause.KindStore:
		details = append(details, "it is asked again in "+lasts)
	case cause.KindQuota, cause.KindKey:
		details = append(details, "for "+lasts+" now", "it is asked again in "+cli.Seconds(p.Again.Seconds()))
	case cause.KindBlocked, cause.KindForgotten:
		details = append(details, "for "+lasts+" more")
	case cause.KindFault:
		if p.Detail != "" {
			return strings.Join(append([]string{p.Text + ": " + p.Detail}, details...), "; ")
		}
	}
	if len(details) == 0 {
		return p.Text
	}
	return p.Text + sign + strings.Join(details, ", ")
}
