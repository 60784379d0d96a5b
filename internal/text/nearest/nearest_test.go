package nearest_test

import (
	"testing"

	"github.com/headway-go/headway/internal/text/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"openai", "tenant", "worker", "enqueue"}
	for word, want := range map[string]string{
		"opnai": "openai", "OpenAI": "openai", "wroker": "worker", "enque": "enqueue", "tenants": "tenant",
		"nonsense": "", "": "", "x": "",
	} {
		if got := nearest.Name(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := nearest.There("opnai", names[:1]); got != `there is "openai"` {
		t.Error(got)
	}
	if got := nearest.There("opnai", names[:2]); got != `there are "openai", "tenant"; did you mean "openai"?` {
		t.Error(got)
	}
	if got := nearest.Hint("opnai", names); got != `; did you mean "openai"?` {
		t.Error(got)
	}
}
