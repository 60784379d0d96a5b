package provider_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/provider"
)

func TestCallsAreCountedByKey(t *testing.T) {
	t.Parallel()
	p, err := provider.Start(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	probe := contest.NewProbe(contest.Env{ProviderURL: p.URL()}, t.Output())
	defer probe.Close()
	for seq, key := range []string{"fast", "slow", "fast"} {
		used, err := probe.Call(t.Context(), contest.Task{Seq: seq, Key: key, Reserved: 30, Used: 10})
		if err != nil || used != 10 {
			t.Fatalf("call %d: used %d, %v", seq, used, err)
		}
	}
	fast := p.Arrivals()["fast"]
	if p.Count("") != 3 || p.Count("slow") != 1 || len(fast) != 2 || fast[1].Seq != 2 || fast[1].Tokens != 10 ||
		fast[1].At < fast[0].At {
		t.Errorf("counted %d, slow %d, fast %+v", p.Count(""), p.Count("slow"), fast)
	}
	p.Reset(time.Now())
	if p.Count("") != 0 || p.Count("fast") != 0 {
		t.Error("calls from before the reset count")
	}
}
