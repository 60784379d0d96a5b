package cli_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
)

func TestRate(t *testing.T) {
	t.Parallel()
	for want, tokens := range map[string]float64{
		"50/d": 50, "0.25/d": 0.25, "33.33/d": 100. / 3, "0.001/d": 0.001, "0/d": 0,
	} {
		if got := cli.Rate(tokens, 24*time.Hour); got != want {
			t.Errorf("%v: %s instead of %s", tokens, got, want)
		}
	}
}
