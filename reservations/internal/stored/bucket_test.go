package stored_test

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// A store that asks for single fields asks for all of them.
func TestFields(t *testing.T) {
	t.Parallel()
	var encoded []string
	for _, field := range stored.Encode(bucket.Bucket{}) {
		encoded = append(encoded, field.Key)
	}
	text, err := bson.Marshal(stored.Bucket{})
	if err != nil {
		t.Fatal(err)
	}
	elements, err := bson.Raw(text).Elements()
	if err != nil {
		t.Fatal(err)
	}
	var decoded []string
	for _, e := range elements {
		decoded = append(decoded, e.Key())
	}
	if !slices.Equal(encoded, stored.Fields()) || !slices.Equal(decoded, stored.Fields()) {
		t.Errorf("encoded %q, decoded %q, listed %q", encoded, decoded, stored.Fields())
	}
}
