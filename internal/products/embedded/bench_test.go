package embedded_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// BenchmarkLook is one look of the dispatcher at a bucket with waiting tasks.
func BenchmarkLook(b *testing.B) {
	for _, size := range []struct{ waiting, heads int }{{0, 256}, {100, 16}, {600, 256}, {6000, 16}} {
		b.Run(fmt.Sprintf("waiting=%d/heads=%d", size.waiting, size.heads), func(b *testing.B) {
			_, client := inMemory(b)
			lists := waitlist.New(client)
			for i := range size.waiting {
				_, err := lists.Join(b.Context(), waitlist.Reported{}, waitlist.Entry{
					Task: waitlist.Task{Queue: "default", ID: fmt.Sprintf("0190c2f4-6d3a-7c1e-9b5a-%012d", i)}, Bucket: "api",
					Turns:  class.Turns{Flow: strconv.Itoa(i % 10), Cost: 0.02},
					Tokens: map[string]float64{"requests": 1}, Keep: time.Hour,
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			duty := waitlist.Duty{ID: "id", Heads: size.heads, Promoted: 64}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := lists.Look(b.Context(), duty, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDequeue delivers tasks with Headway's form of asynq's script. An operation is one delivery, or one poll of
// an empty queue.
func BenchmarkDequeue(b *testing.B) {
	var text strings.Builder
	for _, name := range []string{"dequeue"} {
		part, err := os.ReadFile("../../line/asynqdb/lua/" + name + ".lua")
		if err != nil {
			b.Fatal(err)
		}
		text.Write(part)
	}
	script := redis.NewScript(text.String())
	for _, name := range []string{"idle", "busy"} {
		b.Run(name, func(b *testing.B) {
			_, client := inMemory(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				id := strconv.Itoa(i)
				if name == "busy" {
					client.HSet(b.Context(), "t:"+id, "msg", "message", "state", "pending", "pending_since", 1)
					client.LPush(b.Context(), "pending", id)
				}
				err := script.Run(b.Context(), client, []string{"pending", "paused", "active", "lease"}, "t:", i, 1, 1).Err()
				if err != nil {
					b.Fatal(err)
				}
				if name == "busy" {
					client.LRem(b.Context(), "active", 1, id)
					client.ZRem(b.Context(), "lease", id)
					client.Del(b.Context(), "t:"+id)
				}
			}
		})
	}
}
