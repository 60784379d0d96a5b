package openai

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/text/filekind"
)

// Reply is an answer of a provider, as it came.
type Reply struct {
	Endpoint string
	Status   int
	Header   http.Header
	// Body is unpacked and has no secrets. Of an answer that is an error it may be the beginning only.
	Body []byte
}

// Verdict is what a Reply means.
type Verdict struct {
	Said

	Kind httpcall.Kind
	// Wait is how long the provider asks to wait: of the headers, else of the body, else of its message. Zero where no
	// time is named, or where it is past. It asks all callers if Kind.Refuses.
	Wait time.Duration
	// Form says what came instead of an answer, if the Kind is Unusable. It is the same for the same mistake.
	Form string
	// Packed says that the body of an error can't be read, and so can't be searched for secrets.
	Packed bool
}

// errorBytes bounds the bodies that are searched for an error.
const errorBytes = 256 << 10

// Judge says what an answer means. It is pure: now is the moment of the answer, if the answer names none.
//
// An answer with a good status is good if it has what the endpoint answers with, and no sign of an error: an error, a
// base_resp or an error_code that is none of success, a status or a finish reason that is an error. Empty content, tool
// calls, refusals and all other finish reasons are good. An error within a good status counts as what its words say,
// and as a failure if they are not known.
func Judge(r Reply, now time.Time) (v Verdict) {
	now = httpcall.Clock(r.Header, now)
	switch {
	case r.Status >= http.StatusBadRequest:
		v = refused(r, now)
	case r.Status >= http.StatusMultipleChoices:
		v = Verdict{Kind: httpcall.Failed}
		v.Message = fmt.Sprintf("redirected to %q: call that instead", r.Header.Get("Location"))
	default:
		v = delivered(r, now)
	}
	if v.Kind == httpcall.Good || v.Kind == httpcall.Unusable {
		return v
	}
	v.Wait = v.wait(r, now)
	if timed := httpcall.KindOf(r.Status, v.Wait > 0); timed.Refuses() && !v.Kind.Refuses() && !v.aboveLimit() {
		v.Kind = timed
	}
	return v
}

// wait is the time that an answer names.
func (v Verdict) wait(r Reply, now time.Time) time.Duration {
	wait, named := httpcall.Wait(r.Header, now)
	if named {
		return wait
	}
	if v.Said.Wait > 0 {
		return v.Said.Wait
	}
	if v.Kind.Refuses() {
		if wait, ok := httpcall.Spoken(v.Message); ok {
			return wait
		}
	}
	status := r.Status
	if v.Kind == httpcall.RateLimit && status < http.StatusBadRequest {
		status = http.StatusTooManyRequests
	}
	return httpcall.ResetAfter(status, r.Header, now)
}

// refused judges an answer whose status is an error.
func refused(r Reply, now time.Time) (v Verdict) {
	v.Kind = httpcall.KindOf(r.Status, false)
	text := bytes.TrimSpace(r.Body)
	if packed, kind := packing(r.Header), filekind.Of(text); packed != "" || kind.Name != "" {
		v.Packed, v.Message = true, "the error is "+kind.Name
		if packed != "" {
			v.Message = fmt.Sprintf("the error is packed as %.40q, which was not asked for", packed)
		}
		return v
	}
	if body, ok := decoded(text[:min(len(text), errorBytes)]); ok {
		v.Said = read(body, now)
	}
	if v.Code == "" && v.Message == "" { // an error of another shape, or a gateway's page
		v.Message = string(text)
	}
	awsType, _, _ := strings.Cut(r.Header.Get("X-Amzn-Errortype"), ":")
	v.marks = append(v.marks, awsType)
	words := v.kind()
	switch {
	case r.Status == http.StatusUnauthorized && words != httpcall.Quota:
		v.Kind = httpcall.Key
	case v.aboveLimit() && r.Status == http.StatusTooManyRequests, r.Status == http.StatusRequestEntityTooLarge:
		v.Kind = httpcall.Permanent
	case words == httpcall.Quota, words.Refuses() && !v.Kind.Refuses():
		v.Kind = words
	}
	return v
}

// packing is how a body is packed that the transport has not unpacked; empty for one that is as it is.
func packing(h http.Header) string {
	encoding := strings.Join(h.Values("Content-Encoding"), ", ")
	if strings.EqualFold(encoding, "identity") {
		return ""
	}
	return encoding
}

// delivered judges an answer whose status is good.
func delivered(r Reply, now time.Time) Verdict {
	var a answer
	if form, detail := a.parse(r); form != "" {
		return unusable(form, detail)
	}
	if v, failed := a.failure(r, now); failed {
		return v
	}
	name, content := a.content(r.Endpoint)
	if content == full {
		return Verdict{Kind: httpcall.Good}
	}
	if len(r.Body) <= errorBytes {
		body, _ := decoded(r.Body)
		if said := read(body, now); said.Message != "" {
			return Verdict{Said: said, Kind: cmp.Or(said.kind(), httpcall.Failed)}
		}
	}
	if content == absent {
		return unusable("the answer has no "+name, beginning(r.Body))
	}
	return unusable("the answer's "+name+" is empty", beginning(r.Body))
}

func unusable(form, detail string) Verdict {
	v := Verdict{Kind: httpcall.Unusable, Form: form}
	v.Message = form
	if detail != "" {
		v.Message += ": " + detail
	}
	return v
}
