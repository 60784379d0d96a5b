package dashboard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]span{
		"":                              {{"", false}},
		"Nothing.":                      {{"Nothing.", false}},
		"Use `headway limits`, or wait": {{"Use ", false}, {"headway limits", true}, {", or wait", false}},
		"`headway a``headway b`": {
			{"", false}, {"headway a", true}, {"", false}, {"headway b", true}, {"", false},
		},
		"key `rm -rf ~` is new": {{"key ", false}, {"`rm -rf ~", false}, {"` is new", false}},
		"a ` alone":             {{"a ", false}, {"` alone", false}},
	} {
		if diff := cmp.Diff(want, spans(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
