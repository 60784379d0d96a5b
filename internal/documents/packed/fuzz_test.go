package packed_test

import (
	"bytes"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents/packed"
)

// Unpacking a corrupt value returns an error or a text. A packed text is unpacked unchanged.
func FuzzUnpack(f *testing.F) {
	for _, seed := range []string{"", "text", "\xff\x00", "\x28\xb5\x2f\xfd\x00\x00\x00"} {
		f.Add(byte(bson.TypeBinary), []byte(seed))
		f.Add(byte(bson.TypeString), []byte(seed))
		f.Add(byte(0), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		_, _ = packed.Unpack(bson.RawValue{Type: bson.Type(kind), Value: data})
		if len(data) == 0 {
			return
		}
		if back, err := packed.Unpack(packed.Pack(data)); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%q became %q: %v", data, back, err)
		}
	})
}
