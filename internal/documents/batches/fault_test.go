package batches_test

import (
	"testing"

	"github.com/headway-go/headway/internal/documents/batches"
)

func TestFault(t *testing.T) {
	t.Parallel()
	attempts := []batches.Attempt{{Error: "first"}, {Error: "last"}}
	for want, r := range map[string]batches.Result{
		"too late":   {Failure: &batches.Failure{Message: "too late"}, Attempts: attempts},
		"last":       {Attempts: attempts, Response: &batches.Response{StatusCode: 500}},
		"status 404": {Response: &batches.Response{StatusCode: 404}},
		"no answer":  {},
	} {
		if got := r.Fault(); got != want {
			t.Errorf("the fault is %q, want %q", got, want)
		}
	}
}
