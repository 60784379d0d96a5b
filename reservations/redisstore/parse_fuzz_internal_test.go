package redisstore

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// A state that a script returned is refused, or it is what its bytes say: epoch, clock, header and bucket. A bucket of
// another epoch counts as lost. What a swap writes next can be read again.
func FuzzParse(f *testing.F) {
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.PerSecond("r", 10)}}
	now := time.Unix(1_767_225_600, 0)
	full, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(limit), now,
		bucket.Request{Op: bucket.OpStart, Tokens: []float64{1}})
	document := stored.Encode(full)
	const epoch, other, clock = "1767225600000000", "1767225599000000", "1767225601000000"
	call := strings.Repeat("a", 16)
	for _, text := range []string{
		"", epoch, epoch + clock, epoch + clock + epoch + call, epoch + clock + epoch + call + string(document),
		epoch + clock + other + call + string(document), epoch + clock + epoch + call + string(document[:20]),
		epoch + clock + epoch, strings.Repeat("\x00", 64), "-767225600000000" + "9223372036854775" + epoch + call,
		"0000000000000000" + clock + epoch + call + string(document),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		seen, err := (&Store{}).parse("api", text)
		if err != nil {
			if !strings.Contains(err.Error(), "api") || len(err.Error()) > 500+4*len(text) {
				t.Errorf("%.500v", err)
			}
			return
		}
		if us, bad := strconv.ParseInt(text[16:32], 10, 64); bad != nil || seen.Clock.UnixMicro() != us {
			t.Errorf("clock %v of %q", seen.Clock, text[16:32])
		}
		if seen.epoch != text[:16] || len(text) > 32 && seen.header != text[32:64] {
			t.Errorf("epoch %q, header %q of %q", seen.epoch, seen.header, text)
		}
		lost := len(text) == 32 || text[32:48] != text[:16]
		if us, _ := strconv.ParseInt(text[:16], 10, 64); lost && us > 0 && us < 7e15 && seen.bucket.Since.UnixMicro() != us {
			t.Errorf("a bucket that may be lost is known since %v", seen.bucket.Since)
		}
		if seen.bucket.Version > math.MaxInt32 {
			return
		}
		after, o := bucket.Step(seen.bucket, bucket.Rules(limit), seen.Clock,
			bucket.Request{Op: bucket.OpStart, Tokens: []float64{1}})
		if o.Hold < 0 || o.Hold > bucket.Hold || o.Wait() < 0 {
			t.Errorf("hold %v, wait %v", o.Hold, o.Wait())
		}
		written := stored.Encode(after)
		again, err := (&Store{}).parse("api", epoch+clock+epoch+call+string(written))
		if err != nil || len(again.bucket.Meters) != len(after.Meters) {
			t.Errorf("the bucket %+v can't be read again: %v", after, err)
		}
	})
}
