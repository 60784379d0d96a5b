package headwaytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
)

// The trace has what reaches Redis, the store and the provider, and the events of workers, each with its time.
func TestTrace(t *testing.T) { // it sets a variable
	file := filepath.Join(t.TempDir(), "trace")
	t.Setenv("HEADWAY_TRACE", file)
	for range 2 { // the second fleet is added
		headwaytest.Run(t, func(f *headwaytest.Fleet) {
			api := f.Provider("api", headwaytest.Provider{Latency: headwaytest.Between(time.Second, time.Second)})
			f.Workers(1, calls(api))
			f.Enqueue(one(1))
			f.Drain(time.Minute)
		}, headwaytest.Limits(perSecond(10, 10)))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0.000000000 fleet TestTrace: ", " redis worker 0: zadd asynq:servers ", " redis producer: ",
		` store worker 0: api: ["started hold 0s wait 0s"]`, `call worker 0: api for "`, "event worker 0: started ",
		"event worker 0: succeeded ",
	} {
		if n := strings.Count(string(text), want); n < 2 {
			t.Errorf("the trace has %q %d times, want it of two fleets", want, n)
		}
	}
	for line := range strings.Lines(string(text)) {
		if at, _, _ := strings.Cut(line, "."); len(line) > 600 || strings.Trim(at, "0123456789") != "" {
			t.Errorf("a line is %.700q", line)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
