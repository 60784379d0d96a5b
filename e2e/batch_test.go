package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-go/headway/examples"
)

// smallChats returns n small requests, numbered from first, in the OpenAI Batch input format. The provider counts
// each by its ID.
func smallChats(first, n int) string {
	var b strings.Builder
	for i := first; i < first+n; i++ {
		fmt.Fprintf(&b,
			`{"custom_id":"t%05d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini",`+
				`"messages":[{"role":"user","content":"Count to %d."}],"max_tokens":20,"metadata":{"headway_task":"t%05d"}}}`+"\n",
			i, i, i)
	}
	return b.String()
}

// examplesGodoc returns the first n lines of the example file, with the IDs by which the provider counts them.
func examplesGodoc(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for _, text := range bytes.SplitAfterN(examples.Godoc, []byte("\n"), n+1)[:n] {
		var line map[string]any
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("examples/godoc.jsonl: %v", err)
		}
		body, ok := line["body"].(map[string]any)
		if !ok {
			t.Fatalf("examples/godoc.jsonl: no body in %s", text)
		}
		body["metadata"] = map[string]any{"headway_task": line["custom_id"]}
		changed, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(changed)
		b.WriteByte('\n')
	}
	return b.String()
}
