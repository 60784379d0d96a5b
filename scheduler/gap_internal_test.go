package scheduler

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

// Of several answers the newest is sent, with what was withdrawn in all of them; what could not be sent is sent the next time.
func TestGapsAreKeptUntilTheyAreSent(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	w := newWaker(newLines(client), asynq.NewInspectorFromRedisClient(client), Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults())
	at := time.Now()
	of := func(version int64, gap time.Duration) movement {
		return movement{line: "a@1", at: at, heard: at, shift: time.Duration(version) * time.Second, speed: 1, version: version, gap: gap}
	}
	if err := client.HSet(t.Context(), root+"clock:a@1", "offset", 0).Err(); err != nil {
		t.Fatal(err)
	}
	send := func(fails bool) {
		t.Helper()
		if _, err := w.sendMoves(context.WithoutCancel(t.Context())); (err != nil) != fails {
			t.Fatalf("%v, want an error: %v", err, fails)
		}
	}
	for _, m := range []movement{of(2, time.Second), of(3, 0), of(1, 2*time.Second)} { // the answers come in any order
		w.move(m)
	}
	server.SetError("away")
	send(true)
	w.move(of(4, time.Second))
	send(true)
	server.SetError("")
	for range 2 {
		send(false)
	}
	gap, err := client.ZScore(t.Context(), root+"gaps", "a@1").Result()
	shift := client.HGet(t.Context(), root+"clock:a@1", "shift").Val()
	if err != nil || gap != 4e6 || shift != "4000000" {
		t.Errorf("gap %v, shift %s, %v", gap, shift, err)
	}
	for range 5 {
		w.move(of(5, reservations.MaxWait))
	}
	if gap := w.moved["a@1"].gap; gap != reservations.MaxWait {
		t.Errorf("gap %v", gap)
	}
}
