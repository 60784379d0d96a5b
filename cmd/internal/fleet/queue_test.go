package fleet

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestPauseAndDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		for _, test := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"pause", "defautl"}, cli.ExitUsage, `there is no queue "defautl"; there is "default"`},
			{[]string{"pause", "default"}, cli.ExitOK, "queue default is paused"},
			{[]string{"pause", "default"}, cli.ExitOK, "queue default is paused"},
			{[]string{"explain", "b", "--config", file}, cli.ExitOK, "resume it with `headway unpause default`"},
			{[]string{"unpause", "default"}, cli.ExitOK, "queue default is not paused any more"},
			{[]string{"unpause", "default"}, cli.ExitOK, "queue default was not paused"},
			{[]string{"delete", "b", "--config", file}, cli.ExitOK, "task b of queue default is deleted\n"},
			{[]string{"delete", "b", "--config", file}, cli.ExitFailed, "there is no b"},
			{[]string{"delete", "b", "--config", file, "--queue", "default"}, cli.ExitFailed, "task b does not wait"},
		} {
			if code, out, errs := command(t, env, test.args...); code != test.code || !strings.Contains(out+errs, test.want) {
				t.Errorf("%q: exit %d: %s%s", test.args, code, out, errs)
			}
		}
	})
}

// A queue that a worker takes from is there before its first task, and while it is paused.
func TestPauseBeforeTheFirstTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, _ := waitingWorld(t)
		client, err := connect.Redis(contextOf(t, env), func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		testenv.Serve(t, client, "bulk")
		for _, test := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"pause", "bukl"}, cli.ExitUsage, `there is no queue "bukl"; there are "bulk", "default"`},
			{[]string{"unpause", "bulk"}, cli.ExitOK, "queue bulk was not paused"},
			{[]string{"pause", "bulk"}, cli.ExitOK, "queue bulk is paused"},
			{[]string{"pause", "bulk"}, cli.ExitOK, "queue bulk is paused"},
			{[]string{"unpause", "bulk"}, cli.ExitOK, "queue bulk is not paused any more"},
		} {
			if code, out, errs := command(t, env, test.args...); code != test.code || !strings.Contains(out+errs, test.want) {
				t.Errorf("%q: exit %d: %s%s", test.args, code, out, errs)
			}
		}
	})
}
