package web_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/headway-go/headway/tasks/web"
)

// largest are bodies of so many bytes of which JSON makes most.
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

// What is stored of an answer takes at most twice its bytes, once, and says the same.
func TestStoredAnswersAreBounded(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
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
		_ = json.Unmarshal(read.Body, &plain) // it may be base64
		if !bytes.Equal(read.Base64, body) && plain != string(body) && !bytes.Equal(read.Body, body) {
			t.Errorf("%q: another body", name)
		}
	}
}

// BenchmarkStoredAnswers says what eight answers of 8 MB are in memory, with what is stored of them.
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
