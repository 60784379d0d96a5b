package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/documents/batches"
)

// AppendOutput appends the line of a result in an output file or in an error file, and its line break, to b. Both have
// the same format:
//
//	{"id": "r3", "custom_id": "a-1", "response": {"status_code": 200, "request_id": "", "body": {...}}, "error": null}
//	{"id": "r4", "custom_id": "a-2", "response": {"status_code": 400, "request_id": "", "body": {...}}, "error": null}
//	{"id": "req_5", "custom_id": "a-3", "response": null, "error": {"code": "batch_expired", "message": "..."}}
//
// That is the format of OpenAI's "Batch API" guide, with its spaces, and of BatchRequestOutput in OpenAI's API
// reference. There error is "for requests that failed with a non-HTTP error". So an answer with a status of 4xx is in
// the error file with its response and "error": null.
//
// The ID is always the same for the same line of the same batch. A body that is not JSON is written as a JSON string,
// and an empty one as an empty object. OpenAI's codes of an error are batch_expired, batch_cancelled and
// request_timeout.
func AppendOutput(b []byte, r batches.Result) []byte {
	response, fault := []byte("null"), []byte("null")
	if a := r.Response; a != nil {
		response = fmt.Appendf(nil, `{"status_code": %d, "request_id": %s, "body": %s}`,
			a.StatusCode, quoted(a.RequestID), oneLine(a.Body))
	}
	if e := r.Failure; e != nil {
		fault = fmt.Appendf(nil, `{"code": %s, "message": %s}`, quoted(e.Code), quoted(e.Message))
	}
	id := sha256.Sum256([]byte(r.Batch + "/" + strconv.Itoa(r.Line)))
	return fmt.Appendf(b, `{"id": "batch_req_%x", "custom_id": %s, "response": %s, "error": %s}`+"\n",
		id[:16], quoted(r.CustomID), response, fault)
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
