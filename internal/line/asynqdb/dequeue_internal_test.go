package asynqdb

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// scripted is a Redis with a prepared answer for each script. It stores the calls.
type scripted struct {
	redis.UniversalClient

	take    string // hash of the script that takes tasks
	answers []*redis.Cmd
	asked   []string
	leases  []string // that a dequeue set, or a look searched
}

func (r *scripted) EvalSha(_ context.Context, sha1 string, _ []string, args ...any) *redis.Cmd {
	name := "look"
	if sha1 == r.take {
		name = "take"
	}
	text, _ := args[1].(string)
	r.asked, r.leases = append(r.asked, name), append(r.leases, text)
	answer := r.answers[0]
	r.answers = r.answers[1:]
	return answer
}

// If the answer to a dequeue is lost, asynqdb looks for the task that the call may have taken. It looks until it
// finds that there is none, or the lease has ended.
func TestATaskWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, none := redis.NewCmdResult(nil, io.EOF), redis.NewCmdResult([]any{}, nil)
		empty := redis.NewCmdResult([]any{"1"}, nil)
		r := &scripted{}
		client := ForServer(r, ServerConfig{})
		r.take = client.take.Hash()
		take := func(want any, err error, asked []string, answers ...*redis.Cmd) {
			t.Helper()
			r.asked, r.leases, r.answers = nil, nil, answers
			keys := []string{"asynq:{q}:pending", "asynq:{q}:paused", "asynq:{q}:active", "asynq:{q}:lease"}
			got := client.EvalSha(t.Context(), "take", keys, time.Now().Add(30*time.Second).Unix(), "asynq:{q}:t:")
			if diff := cmp.Diff(asked, r.asked); diff != "" || got.Val() != want || !errors.Is(got.Err(), err) {
				t.Errorf("got %v, %v, want %v, %v; asked (-want +got):\n%s", got.Val(), got.Err(), want, err, diff)
			}
		}
		first := redis.NewCmdResult([]any{"id", "first", "0"}, nil)
		second := redis.NewCmdResult([]any{"0", "id", "second", "0"}, nil)
		take(nil, io.EOF, []string{"take"}, lost)
		asked := r.leases[0]
		ends, err := strconv.ParseFloat(asked, 64)
		if wanted := float64(time.Now().Add(30 * time.Second).Unix()); err != nil || ends < wanted || ends >= wanted+1 {
			t.Errorf("a lease until %s, want within the second from %v", asked, wanted)
		}
		take(nil, io.EOF, []string{"look"}, lost)
		take("first", nil, []string{"look"}, first)
		if r.leases[0] != asked {
			t.Errorf("looked for %s, want %s", r.leases[0], asked)
		}
		take("second", nil, []string{"look", "take"}, none, second)
		if r.leases[1] == asked {
			t.Errorf("%s was asked for twice", asked)
		}
		take(nil, redis.Nil, []string{"take"}, empty)
		take(nil, io.EOF, []string{"take"}, lost)
		<-time.After(30 * time.Second)
		take("second", nil, []string{"take"}, second)

		// A task that has waited comes with its deadline as the time to start by, also now.
		late := protowire.AppendVarint(protowire.AppendTag(nil, messageDeadline, protowire.VarintType), 1)
		take(nil, io.EOF, []string{"take"}, lost)
		waited := redis.NewCmdResult([]any{"id", string(late), "1"}, nil)
		take(expiring(string(late), time.Now()), nil, []string{"look"}, waited)
	})
}
