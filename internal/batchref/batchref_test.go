package batchref_test

import (
	"testing"

	"github.com/headway-go/headway/internal/batchref"
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
