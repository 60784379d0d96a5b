package batches

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/packed"
)

// The stored request. The package leaves other fields unchanged, so that a later version may add some.
//
//	_id       "batch/000000042": the index has the order of the lines.
//	custom    custom_id
//	status    done or failed; missing while there is no result.
//	at        when the request ended.
//	code      status of the answer; missing if there is none. request_id, body: of the answer.
//	failure   code, message
//	tries     failed attempts: at, code, error.
//	reserved, used, prompt, completion: tokens, the sum of all rounds.
//	model
//	request   the body that was sent, for failed requests.
//	round     how often the result was put back; again: it was put back, and maybe not enqueued yet.
//	expires   from then on MongoDB may delete the document.
const (
	fieldCustom  = "custom"
	fieldStatus  = "status"
	fieldAt      = "at"
	fieldBody    = "body"
	fieldTries   = "tries"
	fieldRequest = "request"
	fieldRound   = "round"
	fieldAgain   = "again"
	fieldFailure = "failure"
	fieldCode    = "code"

	statusDone   = "done"
	statusFailed = "failed"
)

const (
	lineDigits = 9
	maxLine    = 999_999_999
	maxError   = 1000 // bytes of an attempt's error, and of other external texts
	maxName    = 4096 // bytes of a custom_id or a model
)

// resultDocument is a stored request: the fields of its Result, and what has another form there.
type resultDocument struct {
	ID        string `bson:"_id"`
	Result    `bson:",inline"`
	Status    string        `bson:"status"`
	Code      *int          `bson:"code"`
	RequestID string        `bson:"request_id"`
	Body      bson.RawValue `bson:"body"`
	Request   bson.RawValue `bson:"request"`
}

// documentID returns the _id of the document of a line. A batch ID contains no "/", so batches do not mix.
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

// linesOf matches the documents of the lines from to to, both included.
func linesOf(batch string, from, to int) bson.E {
	return bson.E{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: documentID(batch, from)},
		{Key: "$lte", Value: documentID(batch, to)},
	}}
}

// unfinished matches documents without a result.
func unfinished() bson.E {
	return bson.E{Key: fieldStatus, Value: bson.D{{Key: "$exists", Value: false}}}
}

// hasRoom matches documents that have room for another attempt.
func hasRoom() bson.E {
	return bson.E{Key: fmt.Sprintf("%s.%d", fieldTries, AttemptsMost-1), Value: bson.D{{Key: "$exists", Value: false}}}
}

// addAttempts returns the update that adds attempts which the document does not have.
func addAttempts(attempts []Attempt) bson.M {
	cuts := make([]Attempt, len(attempts))
	for i, a := range attempts {
		a.Error = cut(a.Error, maxError)
		cuts[i] = a
	}
	return bson.M{fieldTries: bson.M{"$each": cuts}}
}

// cut shortens a text to at most that many bytes of valid UTF-8, so that MongoDB stores it.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD") // may be longer
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// finishUpdate returns the update that writes a result.
func finishUpdate(r Result, expires time.Time) bson.M {
	set := bson.M{
		fieldCustom: cut(r.CustomID, maxName), fieldStatus: statusDone, fieldAt: r.Finished, fieldExpires: expires,
	}
	unset := bson.M{fieldAgain: "", fieldRequest: ""} // the request is from an earlier round
	if r.Failed() {
		set[fieldStatus] = statusFailed
		if len(r.Request) > 0 {
			set[fieldRequest], _ = packed.Pack(r.Request)
			delete(unset, fieldRequest)
		}
	}
	if r.Model != "" {
		set["model"] = cut(r.Model, maxName)
	}
	if r.Response != nil {
		set[fieldCode], set["request_id"] = r.Response.StatusCode, cut(r.Response.RequestID, maxError)
		if len(r.Response.Body) > 0 {
			set[fieldBody], _ = packed.Pack(r.Response.Body)
		}
	}
	if r.Failure != nil {
		set[fieldFailure] = Failure{Code: cut(r.Failure.Code, maxError), Message: cut(r.Failure.Message, maxError)}
	}
	update := bson.M{"$set": set, "$unset": unset}
	if tokens := r.Usage.fields(); len(tokens) > 0 {
		update["$inc"] = tokens
	}
	if attempts := r.Attempts[max(0, len(r.Attempts)-AttemptsMost):]; len(attempts) > 0 {
		update["$addToSet"] = addAttempts(attempts)
	}
	return update
}

// fields returns the token counts that are not zero.
func (u Usage) fields() bson.M {
	d := bson.M{"reserved": u.Reserved, "used": u.Used, "prompt": u.Prompt, "completion": u.Completion}
	maps.DeleteFunc(d, func(_ string, n any) bool { return n == 0. })
	return d
}

// result decodes a document, which may have no result yet.
func (d *resultDocument) result() (Result, error) {
	batch, line, err := parseDocumentID(d.ID)
	if err != nil {
		return Result{}, err
	}
	r := d.Result
	r.Batch, r.Line = batch, line
	if d.Status == "" {
		r.Finished = time.Time{}
	}
	if d.Code != nil {
		r.Response = &Response{StatusCode: *d.Code, RequestID: d.RequestID}
		if r.Response.Body, err = packed.Unpack(d.Body); err != nil {
			return Result{}, fmt.Errorf("%w: line %d of batch %q: %w", ErrMalformed, line, batch, err)
		}
	}
	if r.Request, err = packed.Unpack(d.Request); err != nil {
		return Result{}, fmt.Errorf("%w: line %d of batch %q: %w", ErrMalformed, line, batch, err)
	}
	return r, nil
}
