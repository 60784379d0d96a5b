package stored_test

import (
	"slices"
	"testing"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// A store that asks for single fields asks for all of them.
func TestFields(t *testing.T) {
	t.Parallel()
	elements, err := stored.Encode(bucket.Bucket{}).Elements()
	if err != nil {
		t.Fatal(err)
	}
	var encoded []string
	for _, e := range elements {
		encoded = append(encoded, e.Key())
	}
	if !slices.Equal(encoded, stored.Fields()) {
		t.Errorf("encoded %q, listed %q", encoded, stored.Fields())
	}
}
