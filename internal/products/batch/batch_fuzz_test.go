package batch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/products/batch"
)

// The reader ends, line numbers rise, and good lines are valid.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "\ufeff", good("a"), good("a") + "\n" + good("a"), "\ufeff" + good("a") +
			"\r\n\r\n{}", good("b")[:40],
		with("body", `{"model":"m","messages":[]}`), `{"custom_id":"\ud800"}`, "\xff\xfe\n", "null\n[]\n0",
	} {
		f.Add([]byte(seed), 200)
	}
	f.Fuzz(func(t *testing.T, in []byte, maxLine int) {
		r := batch.NewReader(bytes.NewReader(in), batch.Config{MaxLine: maxLine})
		ids := map[string]bool{}
		last := 0
		for {
			line, err := r.Next()
			number := line.Number
			if fault, ok := errors.AsType[*batch.LineError](err); ok {
				number = fault.Line
			} else if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatalf("ended with %v", err)
				}
				return
			}
			if number <= last || number > bytes.Count(in, []byte("\n"))+1 {
				t.Fatalf("line %d after line %d", number, last)
			}
			last = number
			if err != nil {
				continue
			}
			if line.CustomID == "" || ids[line.CustomID] || !json.Valid(line.Body) ||
				line.URL != openai.Chat {
				t.Fatalf("line %+v", line)
			}
			ids[line.CustomID] = true
		}
	})
}
