package batches

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
)

// A stored request is refused as malformed, or it is the one that its key names, with the fields of its document.
func FuzzResultDocument(f *testing.F) {
	for _, key := range []string{
		"b/1", "b/-00000001", "b/+00000001", "b/0000000011", "b/000000000", "/000000001", "b/c/000000001", "", "b/00000001x",
	} {
		f.Add(key, []byte(encode(bson.M{})), []byte(nil))
	}
	for _, fields := range []bson.M{
		nil,
		{"status": ""},
		{"status": "other"},
		{"at": int64(5)},
		{"code": math.MaxInt64},
		{"code": -1},
		{"code": 200},
		{"failure": bson.M{"code": "x", "message": "\x00"}},
		{"tries": bson.A{bson.M{"ms": int64(math.MaxInt64), "code": 500}}},
		{"round": -1},
		{"kept": true},
	} {
		document := bson.M{"custom": "c", "status": "done", "at": time.Unix(1_767_225_600, 0)}
		maps.Copy(document, fields)
		for _, body := range []bson.M{
			nil,
			{"body": bson.Binary{Subtype: 0x80, Data: []byte("x")}},
			{"body": "text", "request": "{}"},
			{"request": bson.Binary{Data: []byte("\xff")}},
		} {
			f.Add("b/000000001", []byte(encode(document)), []byte(encode(body)))
		}
	}
	f.Fuzz(func(t *testing.T, key string, head, body []byte) {
		d := documents.Document{Key: key, Version: "v", Head: head, Body: body}
		h, err := decodeHead(d)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%v", err)
		}
		r, err := decode(d)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v", err)
			}
			return
		}
		// A page continues behind the line of its last document: another form of the same line would repeat the page.
		if id := documentID(r.Batch, r.Line); key != id || checkLine(r.Batch, r.Line) != nil {
			t.Errorf("%q is read as line %d of batch %q", key, r.Line, r.Batch)
		}
		if h.Status == "" && !r.Finished.IsZero() {
			t.Errorf("status %q, finished %v", h.Status, r.Finished)
		}
		if stored, ok := d.Body.Lookup("request").StringValueOK(); ok && h.Kept && string(r.Request) != stored {
			t.Errorf("request %q is read as %q", stored, r.Request)
		}
		if (r.Response == nil) != (h.Code == nil) {
			t.Errorf("%+v is read as %+v", d, r)
		}
	})
}
