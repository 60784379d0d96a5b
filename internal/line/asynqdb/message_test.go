package asynqdb_test

import (
	"testing"

	"github.com/headway-go/headway/internal/line/asynqdb"
)

const message = "\x28\x07\x0a\x03abc\x12\x01x\x7a\x06\x0a\x01k\x12\x01v\x4d1234"

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"cut in a tag": "\x80", "cut in a text": "\x0a\x05abc", "cut in a number": "\x28\x80",
		"cut in a header": "\x7a\x02\x0a\x05", "cut in a fixed number": "\x4d123", "no such kind": "\x0f",
	} {
		if task, err := asynqdb.DecodeMessage([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, task)
		}
	}
	task, err := asynqdb.DecodeMessage([]byte(message))
	if err != nil || task.Type() != "abc" || string(task.Payload()) != "x" || task.Headers()["k"] != "v" {
		t.Errorf("%+v, %v", task, err)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add([]byte(message))
	f.Add([]byte("\x7a\x02\x0a\x05"))
	f.Fuzz(func(t *testing.T, text []byte) {
		task, err := asynqdb.DecodeMessage(text)
		if err == nil && len(task.Type())+len(task.Payload()) > len(text) {
			t.Errorf("more than the message has: %+v", task)
		}
	})
}
