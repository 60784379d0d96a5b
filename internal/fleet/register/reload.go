package register

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Reloads use these keys beside the keys of register.go:
//
//	reload              string with an expiry: the ID of the last request.
//	reload:ID           hash with an expiry: the answer of each process as JSON, by name.
//	readers             roll of the names of processes that answer.
//	reader:NAME         the process lives: the limits whose provider it can't call, as JSON.

// reloadKept is for how long a request counts: a process that Redis could not reach meanwhile answers it late.
const reloadKept = time.Hour

// Answer is what one process answers to a request to read its file again.
type Answer struct {
	// Process is host:pid.
	Process string `json:"process"`
	// Fault is why nothing has changed; empty if the file is in force.
	Fault string `json:"fault,omitempty"`
	// Restart are the changed settings that need a restart.
	Restart []string `json:"needs_restart,omitempty"`
}

// ProcessName is host:pid of this process.
func ProcessName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Reload asks all processes that call Requested to read their files again. It returns the ID of the request, and the
// processes that live.
func (r *Register) Reload(ctx context.Context) (request string, processes []string, err error) {
	request = uuid.NewString()
	if err = r.client.Set(ctx, root+"reload", request, reloadKept).Err(); err != nil {
		return "", nil, fmt.Errorf("request a reload: %w", err)
	}
	names, err := readers.living(ctx, r.client)
	if err != nil {
		return "", nil, fmt.Errorf("request a reload: %w", err)
	}
	return request, slices.Sorted(maps.Keys(names)), nil
}

// Requested returns the ID of the last request, empty if there is none. It shows that the process answers requests, and
// that it can't call the providers of these limits. It has to be called at least every RenewEvery.
func (r *Register) Requested(ctx context.Context, process string, uncalled ...string) (request string, err error) {
	text, err := json.Marshal(uncalled)
	if err != nil {
		return "", fmt.Errorf("look for a reload: %w", err)
	}
	var last *redis.StringCmd
	_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		readers.enter(ctx, p, process, text)
		last = p.Get(ctx, root+"reload")
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // a pipeline returns the error of its first failed command
		return "", fmt.Errorf("look for a reload: %w", err)
	}
	return last.Val(), nil
}

// addUncalled adds what the processes of members have said of the providers that they can't call.
func (r *Register) addUncalled(ctx context.Context, all []Member) error {
	if len(all) == 0 {
		return nil
	}
	texts, err := readers.living(ctx, r.client)
	for i, m := range all {
		if text := texts[m.Name]; text != "" {
			_ = json.Unmarshal([]byte(text), &all[i].Uncalled) // else it is of another version
		}
	}
	return err
}

// Unread says that the process answers no more requests.
func (r *Register) Unread(ctx context.Context, process string) error {
	return readers.leave(ctx, r.client, process)
}

// Answer stores the answer of a process.
func (r *Register) Answer(ctx context.Context, request string, a Answer) error {
	text, err := json.Marshal(a)
	if err == nil {
		_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, root+"reload:"+request, a.Process, text)
			p.Expire(ctx, root+"reload:"+request, reloadKept)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("answer a reload: %w", err)
	}
	return nil
}

// Answers returns the answers so far, by process.
func (r *Register) Answers(ctx context.Context, request string) (map[string]Answer, error) {
	texts, err := r.client.HGetAll(ctx, root+"reload:"+request).Result()
	if err != nil {
		return nil, fmt.Errorf("read the answers to a reload: %w", err)
	}
	answers := map[string]Answer{}
	for process, text := range texts {
		a := Answer{Process: process}
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			a.Fault = fmt.Sprintf("its answer can't be read: %v", err)
		}
		answers[process] = a
	}
	return answers, nil
}
