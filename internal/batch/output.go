package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/batches"
)

// Output is one line of an output file or of an error file. Both have the same format:
//
//	{"id": "r3", "custom_id": "a-1", "response": {"status_code": 200, "request_id": "", "body": {...}}, "error": null}
//	{"id": "r4", "custom_id": "a-2", "response": {"status_code": 400, "request_id": "", "body": {...}}, "error": null}
//	{"id": "req_5", "custom_id": "a-3", "response": null, "error": {"code": "batch_expired", "message": "..."}}
//
// That is the format of OpenAI's "Batch API" guide (retrieving the results; batch expiration) and of
// BatchRequestOutput in OpenAI's API reference. The reference describes error: "for requests that failed with a
// non-HTTP error". So an answer with a status of 4xx is in the error file with its response and "error": null. Users
// of OpenAI report the same: "`BatchRequestOutput` object's `error` discrepancies", an issue of OpenAI's description
// of its API. The spaces between the fields are as in the guide.
type Output struct {
	// ID is the ID of the line; see [OutputID].
	ID string

	// CustomID is the custom_id of the request.
	CustomID string

	// Response is nil if there was no answer. A body that is not JSON is written as a JSON string, and an empty one as
	// an empty object.
	Response *batches.Response

	// Error is nil if there was an answer, whatever its status. OpenAI's codes are batch_expired, batch_cancelled and
	// request_timeout.
	Error *batches.Failure
}

// OutputID returns the ID of a line. It is always the same for the same line of the same batch.
func OutputID(batch string, line int) string {
	sum := sha256.Sum256([]byte(batch + "/" + strconv.Itoa(line)))
	return fmt.Sprintf("batch_req_%x", sum[:16])
}

// AppendOutput appends the line and its line break to b.
func AppendOutput(b []byte, o Output) []byte {
	response, fault := []byte("null"), []byte("null")
	if r := o.Response; r != nil {
		response = fmt.Appendf(nil, `{"status_code": %d, "request_id": %s, "body": %s}`,
			r.StatusCode, quoted(r.RequestID), oneLine(r.Body))
	}
	if e := o.Error; e != nil {
		fault = fmt.Appendf(nil, `{"code": %s, "message": %s}`, quoted(e.Code), quoted(e.Message))
	}
	return fmt.Appendf(b, `{"id": %s, "custom_id": %s, "response": %s, "error": %s}`+"\n",
		quoted(o.ID), quoted(o.CustomID), response, fault)
}

// oneLine returns the body on one line.
func oneLine(body json.RawMessage) []byte {
	if len(bytes.TrimSpace(body)) == 0 {
		return []byte("{}")
	}
	var b bytes.Buffer
	if json.Compact(&b, body) != nil {
		return quoted(string(body))
	}
	return bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD")) // in a string of the API, as decoders do
}

// quoted returns a JSON string, without the escapes that only HTML needs.
func quoted(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ToValidUTF8(text, "\uFFFD")); err != nil {
		panic(err) // encoding a string can't fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Writer writes an output file or an error file. It is not safe for concurrent use.
type Writer struct{ out *bufio.Writer }

// NewWriter returns a Writer to w. Flush it at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 64<<10)} }

// Write writes one line.
func (w *Writer) Write(o Output) error {
	if _, err := w.out.Write(AppendOutput(w.out.AvailableBuffer(), o)); err != nil {
		return fmt.Errorf("batch: write the output: %w", err)
	}
	return nil
}

// Flush writes the lines that are still buffered.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("batch: write the output: %w", err)
	}
	return nil
}
