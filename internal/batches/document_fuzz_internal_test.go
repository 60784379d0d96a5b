package batches

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A stored request is refused as malformed, or it is the one that its _id names, with the fields of its document.
func FuzzResultDocument(f *testing.F) {
	for _, fields := range []bson.M{
		nil,
		{"_id": "b/1"},
		{"_id": "b/-00000001"},
		{"_id": "b/+00000001"},
		{"_id": "b/0000000011"},
		{"_id": "b/000000000"},
		{"_id": "/000000001"},
		{"_id": "b/c/000000001"},
		{"_id": ""},
		{"_id": 5},
		{"_id": "b/00000001x"},
		{"status": ""},
		{"status": "other"},
		{"at": int64(5)},
		{"code": math.MaxInt64},
		{"code": -1},
		{"body": bson.Binary{Subtype: 0x80, Data: []byte("x")}},
		{"body": "text", "code": 200},
		{"failure": bson.M{"code": "x", "message": "\x00"}},
		{"tries": bson.A{bson.M{"ms": int64(math.MaxInt64), "code": 500}}},
		{"round": -1},
		{"request": bson.Binary{Data: []byte("\xff")}},
	} {
		document := bson.M{"_id": "b/000000001", "custom": "c", "status": "done", "at": time.Unix(1_767_225_600, 0)}
		maps.Copy(document, fields)
		text, err := bson.Marshal(document)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d resultDocument
		if bson.Unmarshal(text, &d) != nil {
			return
		}
		r, err := d.result()
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v", err)
			}
			return
		}
		// A page continues behind the line of its last document: another form of the same line would repeat the page.
		if id := fmt.Sprintf("%s/%09d", r.Batch, r.Line); d.ID != id || checkLine(r.Batch, r.Line) != nil {
			t.Errorf("%q is read as line %d of batch %q", d.ID, r.Line, r.Batch)
		}
		if r.Finished.IsZero() != (d.Status == "") && !d.Finished.IsZero() {
			t.Errorf("status %q, finished %v", d.Status, r.Finished)
		}
		if stored, ok := bson.Raw(text).Lookup("request").StringValueOK(); ok && string(r.Request) != stored {
			t.Errorf("request %q is read as %q", stored, r.Request)
		}
		if (r.Response == nil) != (d.Code == nil) {
			t.Errorf("%+v is read as %+v", d, r)
		}
	})
}
