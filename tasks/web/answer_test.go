package web_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/headway-go/headway/tasks/web"
)

// largest returns bodies of that size which JSON makes longest.
func largest(size int) map[string][]byte {
	bodies := map[string][]byte{
		"JSON":  append(append([]byte{'"'}, bytes.Repeat([]byte("<"), size-2)...), '"'),
		"UTF-8": bytes.Repeat([]byte("\u2028"), size/3),
	}
	for _, c := range []string{"\x01", "\x7f", "<", "\n", `"`, `\`, "\x00", "\xff", " "} {
		bodies[c] = bytes.Repeat([]byte(c), size)
	}
	return bodies
}

// The stored form of an answer has at most twice its bytes, is in memory once, and decodes to the same answer.
func TestStoredAnswersAreBounded(t *testing.T) { //nolint:paralleltest // counts allocations of the process
	const size = 1 << 20
	for name, body := range largest(size) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := web.Answer{StatusCode: 200, Body: body}.MarshalJSON()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 21*size/10 {
			t.Errorf("%q: %d bytes of JSON take %d, %v", name, len(text), took, err)
		}
		var read struct {
			Body   json.RawMessage
			Base64 []byte `json:"body_base64"`
		}
		if err = json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		var plain string
		_ = json.Unmarshal(read.Body, &plain) // an error means base64
		if !bytes.Equal(read.Base64, body) && plain != string(body) && !bytes.Equal(read.Body, body) {
			t.Errorf("%q: another body", name)
		}
	}
}

// BenchmarkStoredAnswers measures the memory of eight answers of 8 MB and their stored forms.
func BenchmarkStoredAnswers(b *testing.B) {
	body := bytes.Repeat([]byte{1}, 8<<20)
	for b.Loop() {
		var answers [8]web.Answer
		var texts [8][]byte
		for i := range answers {
			answers[i] = web.Answer{StatusCode: 200, Body: bytes.Clone(body)}
			texts[i], _ = answers[i].MarshalJSON()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "live-MB")
		runtime.KeepAlive(answers)
		runtime.KeepAlive(texts)
	}
}
