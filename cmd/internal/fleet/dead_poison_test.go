package fleet

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
)

// A record that can't be read is named, and keeps no other one out of a list, a file or the queue.
func TestDeadCommandsPassWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, store, _ := deadWorld(t)
		recorded(t, store, deadMail("m-1", 1), deadMail("m-2", 2))
		client, err := connect.Redis(contextOf(t, env), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		records := redisdocs.New(client).Collection("dead")
		at := deadMail("", 1).At
		err = documents.UpdateOne(t.Context(), records, documents.Change{
			Key: "bad" + testenv.Escapes, Apply: func(d *documents.Document) (_ bool, err error) {
				d.Group, d.At = string(deadtasks.StateDead), at
				d.Head, err = bson.Marshal(bson.M{"state": deadtasks.StateDead, "at": at, "tries": testenv.Escapes})
				return true, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "dead.jsonl")
		for _, args := range [][]string{
			{"dead", "list"},
			{"dead", "list", "--json"},
			{"dead", "export"},
			{"dead", "export", "--out", file},
			{"dead", "requeue", "--all"},
		} {
			code, out, errs := command(t, env, args...)
			if code != cli.ExitFailed || !strings.Contains(errs, "malformed") {
				t.Errorf("%q: exit %d: %s", args, code, errs)
			}
			if said := testenv.Obeyed(errs); said != "" {
				t.Errorf("%q: %s", args, said)
			}
			switch {
			case args[1] == "requeue" && !strings.Contains(errs, "2 tasks requeued"),
				len(args) == 4 && !strings.Contains(errs, "2 tasks in "+file),
				args[1] != "requeue" && len(args) < 4 && (!strings.Contains(out, "m-1") || !strings.Contains(out, "m-2")):
				t.Errorf("%q: %s%s", args, out, errs)
			}
		}
	})
}
