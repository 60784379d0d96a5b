package waitlist_test

import (
	"testing"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// The name of a task in Redis is that of no other one, whatever its queue and ID are.
func FuzzParseTask(f *testing.F) {
	for _, queue := range []string{"", "default", "a/b", "%zz", "a}b{c", "headway:callers", "\x00", "\xff", "ä ü"} {
		f.Add(queue, "id", "default/id")
		f.Add(queue, "a/b", queue)
	}
	f.Fuzz(func(t *testing.T, queue, id, text string) {
		task := waitlist.Task{Queue: queue, ID: id}
		if back, err := waitlist.ParseTask(task.String()); err != nil || back != task {
			t.Errorf("%+v became %+v: %v", task, back, err)
		}
		if other, err := waitlist.ParseTask(text); err == nil && text == task.String() && other != task {
			t.Errorf("%q is %+v and %+v", text, other, task)
		}
	})
}
