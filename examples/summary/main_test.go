package main

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/headwaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program that README shows enqueues its task, runs it, and ends.
func TestRun(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		ctx, stop := context.WithTimeout(f.Context(), time.Minute)
		defer stop()
		if err := run(ctx, f.Client()); err != nil {
			t.Error(err)
		}
		queue, err := asynq.NewInspectorFromRedisClient(f.Client()).GetQueueInfo("default")
		if err != nil || queue.Processed != 1 || queue.Failed != 0 || queue.Size != 0 {
			t.Errorf("%+v: %v", queue, err)
		}
	})
}
