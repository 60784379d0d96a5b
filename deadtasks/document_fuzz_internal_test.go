package deadtasks

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
)

// A record is refused as malformed, or its task is what the document says, and a requeue may use all of it.
func FuzzRecord(f *testing.F) {
	for _, fields := range []bson.M{
		nil,
		{"task": ""},
		{"task": "\x00"},
		{"queue": ""},
		{"type": ""},
		{"state": "other"},
		{"at": int64(5)},
		{"tries": bson.A{bson.M{"ms": int64(math.MaxInt64)}}},
		{"retries": -1},
		{"retries": math.MaxInt64},
		{"timeout": int64(math.MaxInt64)},
		{"timeout": int64(-5)},
		{"retention": int64(math.MinInt64)},
		{"deadline": time.Unix(1<<40, 0)},
		{"missing": -1},
		{"requeues": bson.A{"x"}},
	} {
		document := bson.M{
			"task": "a", "queue": "default", "type": "t", "state": "dead", "at": time.Unix(1_767_225_600, 0),
		}
		maps.Copy(document, fields)
		head := marshal(f, document)
		for _, body := range []bson.M{
			{"payload": "{}", "headers": "{"},
			{"payload": "{}", "headers": "null"},
			{"payload": "{}", "headers": `{"a":1}`},
			{"headers": `{"a":"b"}`},
			{"payload": nil},
			{"payload": bson.Binary{Subtype: 0x80, Data: []byte("x")}},
		} {
			f.Add(head, marshal(f, body))
		}
	}
	f.Fuzz(func(t *testing.T, head, body []byte) {
		d := documents.Document{Key: "a/default", Version: "v", Head: head, Body: body}
		task, err := decode(d)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v", err)
			}
			return
		}
		if task.Timeout < 0 || task.Retention < 0 || task.MaxRetry < 0 {
			t.Errorf("%v is read with timeout %v, retention %v and %d retries", d.Head, task.Timeout, task.Retention,
				task.MaxRetry)
		}
		for _, a := range task.Attempts {
			if a.Elapsed < 0 {
				t.Errorf("an attempt of %v", a.Elapsed)
			}
		}
		if stored, ok := d.Body.Lookup("payload").StringValueOK(); ok && string(task.Payload) != stored {
			t.Errorf("payload %q is read as %q", stored, task.Payload)
		}
		if stored, ok := d.Body.Lookup("headers").StringValueOK(); ok && stored != "" {
			var want map[string]string
			if json.Unmarshal([]byte(stored), &want) != nil || len(want) != len(task.Headers) {
				t.Errorf("headers %q are read as %v", stored, task.Headers)
			}
		}
	})
}

func marshal(f *testing.F, document bson.M) []byte {
	f.Helper()
	text, err := bson.Marshal(document)
	if err != nil {
		f.Fatal(err)
	}
	return text
}
