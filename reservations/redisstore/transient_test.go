package redisstore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/redisstore"
)

// refusal is an answer of a server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// refusing answers swaps with an error, for some times, and counts them.
type refusing struct {
	hook

	with        error
	left, swaps int
}

func (r *refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !isSwap(cmd) {
			return next(ctx, cmd)
		}
		if r.swaps++; r.left > 0 {
			r.left--
			cmd.SetErr(r.with)
			return r.with
		}
		return next(ctx, cmd)
	}
}

// A swap that the server turned away is sent again, a few times. A swap that may have been applied is not.
func TestTransientErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with        error
		left, swaps int
		want        bucket.Applied // empty where the task starts
	}{
		"loading":   {refusal("LOADING Redis is loading the dataset in memory"), 3, 5, ""}, // NOSCRIPT is an answer too
		"failover":  {refusal("READONLY You can't write against a read only replica."), 1, 3, ""},
		"resharded": {refusal("TRYAGAIN Multiple keys request during rehashing of slot"), 2, 4, ""},
		"no master": {refusal("CLUSTERDOWN The cluster is down"), 100, 8, bucket.AppliedNo},
		"full":      {refusal("OOM command not allowed when used memory > 'maxmemory'."), 1, 1, bucket.AppliedNo},
		"lost":      {context.DeadlineExceeded, 1, 1, bucket.AppliedMaybe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := inBubble(t)()
				store, err := redisstore.OpenNew(t.Context(), client)
				if err != nil {
					t.Fatal(err)
				}
				faults := &refusing{with: c.with, left: c.left}
				client.AddHook(faults)
				o, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", []bucket.Request{start(1)})
				switch {
				case c.want != "":
					wantUnavailable(t, err, c.want)
				case err != nil || !o[0].Started() || o[0].Bucket.Version != 1:
					t.Errorf("%+v, %v", o, err)
				}
				if faults.swaps != c.swaps {
					t.Errorf("%d swaps were sent, want %d", faults.swaps, c.swaps)
				}
			})
		})
	}
}
