package fleet

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
)

// `headway dev` has records of dead tasks and batches, and the commands find them, without MongoDB.
func TestDevHasRecords(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	buckets, err := connect.Records(t.Context(), func(name string) string { return d.env[name] }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = buckets.Close(t.Context()) })
	store, err := buckets.Dead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recorded(t, store, deadMail("m-1", 1))
	for _, c := range []struct{ args, want string }{
		{"dead list", "m-1"}, {"dead requeue --all", "1 task requeued"}, {"dead list", "no dead tasks"},
	} {
		code, out, errs := command(t, d.env, strings.Fields(c.args)...)
		if code != cli.ExitOK || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit %d: %s%s", c.args, code, out, errs)
		}
	}
}
