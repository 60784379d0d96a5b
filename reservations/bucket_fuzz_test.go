package reservations_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

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
		_, _ = reservations.ParseBucket(key) // any text
		c := reservations.Charge{Limit: limit, Key: key}
		c.Shard = shard
		if reservations.ValidateCharges([]reservations.Charge{c}) != nil || shard < 0 {
			return
		}
		back, err := reservations.ParseBucket(c.Bucket().String())
		if err != nil || back != c.Bucket() {
			t.Errorf("%#v became %#v, %v", c.Bucket(), back, err)
		}
	})
}

// bucketShape is the form of LIMIT:KEY, with the number of a shard.
var bucketShape = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,64})(?:#([1-9][0-9]{0,18}))?(?::((?s:.*)))?$`)

// A text that names a bucket on a command line is of that form, and it is the name of that bucket: no other text names
// it, except with a colon and without a key.
func FuzzBucketArgument(f *testing.F) {
	for _, text := range []string{
		"", "api", "api:", "api:acme", ":", ":acme", "api#2:acme", "api#02", "api#+2", "api#0", "api#-1", "api#2#3", "api#",
		"api #2", "api: ", "api:\n", "api\x00", "api:a:b#2", "ａｐｉ", "api#99999999999999999999",
		"-api", "--help", "api:\u202e",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := reservations.ParseBucket(text)
		shape := bucketShape.FindStringSubmatch(text)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("%.200q: an error of %d bytes", text, len(err.Error()))
			}
			return
		}
		if shape == nil || shape[1] != c.Limit || shape[3] != c.Key || len(c.Key) > 512 || !utf8.ValidString(c.Key) {
			t.Errorf("%q is accepted as %#v", text, c)
		}
		if c.String() != text && text != c.String()+":" {
			t.Errorf("%q names bucket %q", text, c)
		}
		if strings.ContainsAny(c.Key, "\x00\n\r\x1b\x7f\u0085\u2028\u202e\u2066") {
			t.Errorf("%q has a key with a control character", text)
		}
	})
}
