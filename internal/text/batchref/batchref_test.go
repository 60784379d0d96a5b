package batchref_test

import (
	"testing"

	"github.com/headway-go/headway/internal/text/batchref"
)

func TestRefIsInTheID(t *testing.T) {
	t.Parallel()
	for _, ref := range []batchref.Ref{{Batch: "b", Line: 1}, {Batch: "a-7-_", Line: 100_000, Round: 3}} {
		if got, ok := batchref.Parse(ref.TaskID()); !ok || got != ref {
			t.Errorf("%s gives %+v, %v", ref.TaskID(), got, ok)
		}
	}
	for _, id := range []string{
		"", "b", "b-1", "b-0-0", "-1-0", "b-01-0", "b-1--1", "5f0c0b1e-8d5e-4a34-9f43-1d2f3a4b5c6d", "b-1-x",
	} {
		if ref, ok := batchref.Parse(id); ok {
			t.Errorf("%q gives %+v", id, ref)
		}
	}
}

// A mark is that of one request, one round and one key.
func TestMarks(t *testing.T) {
	t.Parallel()
	key, other := batchref.NewKey(), batchref.NewKey()
	good := batchref.Ref{Batch: "b", Line: 7, Round: 1}.Signed(key)
	if !good.SignedBy(key) || !good.Signed(key).SignedBy(key) {
		t.Errorf("%+v is not signed", good)
	}
	for name, change := range map[string]func(*batchref.Ref){
		"no mark":        func(r *batchref.Ref) { r.Mark = "" },
		"cut mark":       func(r *batchref.Ref) { r.Mark = r.Mark[1:] },
		"another line":   func(r *batchref.Ref) { r.Line++ },
		"another round":  func(r *batchref.Ref) { r.Round++ },
		"another batch":  func(r *batchref.Ref) { r.Batch = "c" },
		"shifted digits": func(r *batchref.Ref) { r.Batch, r.Line = "b-7", 1 },
		"another key":    func(r *batchref.Ref) { *r = r.Signed(other) },
		"an empty key":   func(r *batchref.Ref) { *r = r.Signed("") },
	} {
		forged := good
		if change(&forged); forged.SignedBy(key) || forged.SignedBy("") {
			t.Errorf("%s: %+v is signed", name, forged)
		}
	}
}
