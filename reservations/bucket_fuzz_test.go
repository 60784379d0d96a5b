package reservations_test

import (
	"testing"

	"github.com/headway-go/headway/reservations"
)

// The name of a bucket is that of no other one: a good charge comes back from it.
func FuzzParseBucket(f *testing.F) {
	for _, key := range []string{
		"", "acme", ":", "#2", "a:b#3", "{x}", "$set.a", "%2e", "a\nb", "\x00", "\xff",
		"\u202e",
	} {
		f.Add("api", key, 0)
		f.Add("api.v2-x_y", key, 3)
		f.Add(key, key, -1)
	}
	f.Fuzz(func(t *testing.T, limit, key string, shard int) {
		_ = reservations.ParseBucket(key) // any text
		c := reservations.Charge{Limit: limit, Key: key, Shard: shard}
		if c.ValidateKey() != nil || shard < 0 {
			return
		}
		back := reservations.ParseBucket(c.Bucket())
		if back.Limit != limit || back.Key != key || back.Shard != shard {
			t.Errorf("%+v became %+v", c, back)
		}
	})
}
