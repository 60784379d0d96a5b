package headway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/worker"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := headway.New(nil, headway.Config{}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Error(err)
	}
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		meters := []reservations.Meter{headway.PerMinute("requests", 1)}
		full := []reservations.Limit{{Name: "openai", Meters: meters}}
		for want, c := range map[string]headway.Config{
			"requests.rate: -1 must be":      {Limits: headway.Limits{"openai": {headway.PerMinute("requests", -1)}}},
			"name: is there twice":           {Limits: headway.Limits{"openai": meters}, FullLimits: full},
			"concurrency: -1 must be from 1": {Worker: worker.Config{Concurrency: -1}},
		} {
			if _, err := headway.New(f.Client(), c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, wanted %s", err, want)
			}
		}
	})
}

// A program and the commands read one file.
func TestLoad(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "headway.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("limits:\n  openai:\n    meters: {requests: 500/m}\n    in_flight: 20\n    weights: {acme: 3}\n" +
		"queues: {urgent: 6, default: 1}\nconcurrency: 7\nbuckets: mongodb\n")
	c, err := headway.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.FullLimits) != 1 || c.FullLimits[0].Weights["acme"] != 3 || len(c.FullLimits[0].Meters) != 2 ||
		c.Worker.Queues["urgent"] != 6 || c.Worker.Concurrency != 7 {
		t.Errorf("%+v", c)
	}
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		if _, err = headway.New(f.Client(), c); err == nil || !strings.Contains(err.Error(), "Config.Store") {
			t.Error(err)
		}
		c.Store, c.Worker.Logger = memstore.New(), quiet.Logger
		hw, failed := headway.New(f.Client(), c)
		if failed != nil {
			t.Fatal(failed)
		}
		write("limits:\n  openai:\n    meters: {requests: 100/m}\n")
		if c, err = headway.Load(name); err == nil {
			err = hw.SetLimits(c)
		}
		limit, failed := inside.Of(hw.Limiter()).Limits().Configured("openai")
		if err != nil || failed != nil || limit.Meters[0].Rate != 100 {
			t.Errorf("%+v: %v, %v", limit, err, failed)
		}
	})
	write("limits:\n  openai:\n    meters: {requests: fast}\n")
	if _, err = headway.Load(name); err == nil || !strings.Contains(err.Error(), "limits.openai.meters.requests") {
		t.Error(err)
	}
}
