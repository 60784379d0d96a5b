package batches

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/packed"
)

const (
	statusDone   = "done"
	statusFailed = "failed"
)

const (
	lineDigits = 9
	maxLine    = 999_999_999
	maxError   = 1000 // bytes of an attempt's error, and of other external texts
	maxName    = 4096 // bytes of a custom_id or a model
)

// resultHead is the head of the document of a request. The key is "batch/000000042", so the keys have the order of the
// lines.
type resultHead struct {
	// Result has the attempts of all rounds, and the usage.
	Result `bson:",inline"`

	Status    string `bson:"status,omitempty"`     // done or failed; empty while there is no result
	Code      *int   `bson:"code,omitempty"`       // status of the answer; nil if there is none
	RequestID string `bson:"request_id,omitempty"` // of the answer
	Kept      bool   `bson:"kept,omitempty"`       // the body has the request
	Again     bool   `bson:"again,omitempty"`      // the result was put back, and is maybe not enqueued yet

	Others map[string]bson.RawValue `bson:",inline"` // fields of a later version
}

// resultBody is the body of the document of a request.
type resultBody struct {
	Body    bson.RawValue `bson:"body,omitempty"`    // of the answer
	Request bson.RawValue `bson:"request,omitempty"` // the body that was sent, for failed requests
}

// documentID returns the key of the document of a line. A batch ID contains no "/", so batches do not mix.
func documentID(batch string, line int) string {
	return fmt.Sprintf("%s/%0*d", batch, lineDigits, line)
}

func parseDocumentID(id string) (batch string, line int, err error) {
	batch, digits, _ := strings.Cut(id, "/")
	line, err = strconv.Atoi(digits)
	// A page of results continues behind its last line. Another form of a line would repeat or skip lines.
	if err != nil || checkLine(batch, line) != nil || documentID(batch, line) != id {
		return "", 0, fmt.Errorf("%w: named %.200q", ErrMalformed, id)
	}
	return batch, line, nil
}

// linesOf is the range of the documents of the lines from to to, both included.
func linesOf(batch string, from, to int) documents.Keys {
	return documents.Keys{From: documentID(batch, from), To: documentID(batch, to) + "!"}
}

// cut shortens a text to at most that many bytes of valid UTF-8, so that each store stores it.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD") // may be longer
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// add adds attempts that the request does not have. It does nothing if the document is full.
func (h *resultHead) add(attempts ...Attempt) {
	for _, a := range attempts {
		a.At, a.Error = a.At.UTC().Truncate(time.Millisecond), cut(a.Error, maxError)
		if !slices.Contains(h.Attempts, a) {
			h.Attempts = append(h.Attempts, a)
		}
	}
}

// finish writes a result into a document that has none.
func (h *resultHead) finish(d *documents.Document, r Result) {
	h.CustomID, h.Status, h.Finished = cut(r.CustomID, maxName), statusDone, r.Finished
	h.Again, h.Kept = false, false
	var b resultBody
	if r.Failed() {
		h.Status = statusFailed
		if h.Kept = len(r.Request) > 0; h.Kept {
			b.Request = packed.Pack(r.Request)
		}
	}
	if r.Model != "" {
		h.Model = cut(r.Model, maxName)
	}
	h.Code, h.RequestID, h.Failure = nil, "", nil
	if r.Response != nil {
		h.Code, h.RequestID = &r.Response.StatusCode, cut(r.Response.RequestID, maxError)
		if len(r.Response.Body) > 0 {
			b.Body = packed.Pack(r.Response.Body)
		}
	}
	if r.Failure != nil {
		h.Failure = &Failure{Code: cut(r.Failure.Code, maxError), Message: cut(r.Failure.Message, maxError)}
	}
	h.Usage.Reserved += r.Usage.Reserved
	h.Usage.Used += r.Usage.Used
	h.Usage.Prompt += r.Usage.Prompt
	h.Usage.Completion += r.Usage.Completion
	h.add(r.Attempts[max(0, len(r.Attempts)-AttemptsMost):]...)
	d.Body = encode(b)
}

// putBack deletes a result, and keeps attempts, usage and the request.
func (h *resultHead) putBack() {
	h.Status, h.Finished, h.Code, h.RequestID, h.Failure = "", time.Time{}, nil, "", nil
	h.Again = true
	h.Round++
}

// encode marshals a head or a body.
func encode(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("batches: marshal %T: %v", v, err)) // all types of this package can be marshaled
	}
	return raw
}

// decodeHead reads a head. Beside an error, which matches ErrMalformed, it returns what can be read.
func decodeHead(d documents.Document) (h resultHead, err error) {
	if d.Version == "" {
		return h, nil
	}
	batch, line, err := parseDocumentID(d.Key)
	if err == nil {
		if err = bson.Unmarshal(d.Head, &h); err != nil {
			err = fmt.Errorf("%w: line %d of batch %q: %w", ErrMalformed, line, batch, err)
		}
	}
	if err != nil {
		h = resultHead{Result: Result{Batch: batch, Line: line}}
		h.CustomID, _ = d.Head.Lookup("custom").StringValueOK()
		h.Status, _ = d.Head.Lookup("status").StringValueOK()
		h.Again, _ = d.Head.Lookup("again").BooleanOK()
		return h, err
	}
	h.Batch, h.Line, h.Finished = batch, line, h.Finished.UTC()
	if h.Status == "" {
		h.Finished = time.Time{}
	}
	for i, a := range h.Attempts {
		h.Attempts[i].At = a.At.UTC()
	}
	return h, nil
}

// decode returns the result in a document, as far as it can be read. It may have no result yet.
func decode(d documents.Document) (Result, error) {
	h, err := decodeHead(d)
	if err != nil {
		return h.Result, err
	}
	r := h.Result
	var b resultBody
	if d.Body != nil {
		err = bson.Unmarshal(d.Body, &b)
	}
	if err == nil && h.Kept {
		r.Request, err = packed.Unpack(b.Request)
	}
	if h.Code != nil {
		r.Response = &Response{StatusCode: *h.Code, RequestID: h.RequestID}
		if err == nil {
			r.Response.Body, err = packed.Unpack(b.Body)
		}
	}
	if err != nil {
		return Result{Batch: r.Batch, Line: r.Line, CustomID: r.CustomID},
			fmt.Errorf("%w: line %d of batch %q: %w", ErrMalformed, r.Line, r.Batch, err)
	}
	return r, nil
}
