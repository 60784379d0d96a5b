// Package cause has the words for why tasks do not start, and for what ends that. The page, the commands and the
// metrics show them, so all of them name a cause in the same words.
package cause

import (
	"fmt"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/text/shell"
)

// Kind names a cause for programs.
type Kind string

// The kinds of causes that keep tasks from starting.
const (
	KindPaused    Kind = "queue_paused"
	KindUnserved  Kind = "queue_unserved"
	KindNoWorker  Kind = "no_worker"
	KindLimit     Kind = "limit_missing"
	KindHandler   Kind = "handler_missing"
	KindProvider  Kind = "provider_missing"
	KindBlocked   Kind = "blocked"
	KindQuota     Kind = "quota"
	KindKey       Kind = "key"
	KindForgotten Kind = "calls_forgotten"
	KindStore     Kind = "store_away"
	KindFault     Kind = "bucket_fault"
)

// Cause is why tasks do not start. The zero value is no cause.
type Cause struct {
	Kind Kind
	// Text is what follows "because", without numbers that change.
	Text string
	// Remedy is what ends it, as an order.
	Remedy string
}

// Paused is that of a paused queue.
func Paused(queue string) Cause {
	return Cause{KindPaused, "queue " + queue + " is paused", "resume it with `" +
		shell.Command("headway unpause", queue) + "`"}
}

// Unserved is that of a queue from which no worker takes, though that many take from others.
func Unserved(queue string, elsewhere int) Cause {
	text := "no worker takes from queue " + queue
	if elsewhere == 0 {
		return Cause{KindNoWorker, text, "start one"}
	}
	return Cause{
		KindUnserved, text + ", only from others",
		"list it under `queues` in the workers' headway.yaml, and restart them",
	}
}

// Lacking is that of a need that no live worker serves.
func Lacking(need register.Need) Cause {
	kind := KindLimit
	switch {
	case need.Provider:
		kind = KindProvider
	case need.Limit == "":
		kind = KindHandler
	}
	return Cause{kind, need.None(), need.Remedy()}
}

// Returned is that of a task which a worker returned, for example because it has no key of the provider. Note is what
// the worker said.
func Returned(note string) Cause {
	return Cause{KindProvider, note, "give the workers what they lack, and restart them"}
}

// Blocked is that of a bucket in which nothing starts for some time.
func Blocked(name string) Cause {
	return Cause{
		KindBlocked, "limit " + name + " is blocked, because a provider refused a call",
		"`" + shell.Command("headway limits unblock", name) + "` ends that",
	}
}

// Stopped is that of a bucket which only people can get to go on. It is zero for other reasons.
func Stopped(name string, why bucket.Reason) Cause {
	kind, remedy := KindQuota, "pay or raise the quota"
	if why == bucket.ReasonKey {
		kind, remedy = KindKey, "set the key, and restart the workers"
	}
	if !why.Stops() {
		return Cause{}
	}
	return Cause{
		kind, fmt.Sprintf("limit %s has stopped, because %s", name, why.Sentence()),
		remedy + "; `" + shell.Command("headway limits unblock", name) + "` asks at once",
	}
}

// Forgotten is that of a bucket whose calls in flight the store may have forgotten.
func Forgotten(name string) Cause {
	return Cause{
		KindForgotten,
		"nothing of limit " + name + " starts, because Redis is new or lost its data and calls of before may still run",
		"wait; or, if no such call can run, `" + shell.Command("headway limits reset", name) + "`",
	}
}

// Store is that of a bucket that could not be asked.
func Store(name string) Cause {
	return Cause{KindStore, "the bucket of limit " + name + " could not be asked", "check the store of the buckets"}
}

// Fault is that of a bucket that can't be read, while others can.
func Fault(name string) Cause {
	return Cause{
		KindFault, "the bucket of limit " + name + " can't be read",
		"if its document is corrupt, `" + shell.Command("headway limits reset", name) + "` deletes it",
	}
}
