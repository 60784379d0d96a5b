package stored_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// whole has every field of a bucket.
func whole() bucket.Bucket {
	at := time.Unix(1_767_225_600, 123_456_789).UTC()
	return bucket.Bucket{
		At: at, Generation: 1_767_225_600_123, Version: 7, Blocked: at.Add(time.Second), Settled: []int64{5, -6},
		Forgot: at.Add(-time.Hour),
		Refused: &bucket.Refused{
			Reason: bucket.ReasonQuota, Times: 3, Since: at.Add(-2), At: at.Add(-1), Gap: time.Second,
			Paused: at.Add(time.Second), Good: at.Add(-3), By: []bucket.Refuser{{ID: 4, Stopped: time.Minute, At: at.Add(-1)}},
		},
		Meters: []bucket.Balance{
			{
				Name: "tokens", Started: 1.5, Reserved: -2.25, Slowed: at.Add(time.Nanosecond),
				Filling: bucket.Filling{Rate: 3, Least: 2, Most: 9, Ramp: time.Minute, Capacity: 40, Headroom: 4},
				Held:    []bucket.Taken{{Until: at.Add(50 * time.Millisecond), Tokens: 2}},
				Peaks:   []bucket.Peak{{At: at.Add(-1), Room: .5}},
			},
			{
				Name: "daily", Started: 8, Reserved: 8,
				Filling: bucket.Filling{Rate: 8, Capacity: 8, Period: 24 * time.Hour, Offset: 8 * time.Hour},
			},
			{
				Name: "in_flight", Started: 1, Reserved: 1, Filling: bucket.Filling{Capacity: 2, InFlight: true},
				Leased: bucket.Leases{{ID: 11, Until: at.Add(25 * time.Second), Tokens: 1}},
			},
		},
	}
}

// A bucket of 1970 is stored, although its moment is the number that stands for none.
func TestFirstMoment(t *testing.T) {
	t.Parallel()
	b := whole()
	b.At = time.Unix(0, 0).UTC()
	if again, err := stored.DecodeBucket(stored.Encode(b)); err != nil || !cmp.Equal(again, b) {
		t.Errorf("decoded: %v: %s", err, cmp.Diff(b, again))
	}
}

// The stored form of a bucket stays the same: processes of two versions share buckets.
func TestFormat(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]bucket.Bucket{
		`{
			"gen": {"$numberLong": "1767225600123"},
			"v": {"$numberLong": "7"},
			"at": {"$numberLong": "1767225600123456789"},
			"blocked": {"$numberLong": "1767225601123456789"},
			"meters": [
				{"n": "tokens", "s": {"$numberDouble": "1.5"}, "r": {"$numberDouble": "-2.25"},
				 "rate": {"$numberDouble": "3.0"}, "cap": {"$numberDouble": "40.0"}, "head": {"$numberDouble": "4.0"},
				 "least": {"$numberDouble": "2.0"}, "most": {"$numberDouble": "9.0"},
				 "ramp": {"$numberLong": "60000000000"}, "slow": {"$numberLong": "1767225600123456790"},
				 "held": [{"u": {"$numberLong": "1767225600173456789"}, "n": {"$numberDouble": "2.0"}}],
				 "peak": [{"a": {"$numberLong": "1767225600123456788"}, "r": {"$numberDouble": "0.5"}}]},
				{"n": "daily", "s": {"$numberDouble": "8.0"}, "r": {"$numberDouble": "8.0"},
				 "rate": {"$numberDouble": "8.0"}, "cap": {"$numberDouble": "8.0"},
				 "period": {"$numberLong": "86400000000000"}, "offset": {"$numberLong": "28800000000000"}},
				{"n": "in_flight", "s": {"$numberDouble": "1.0"}, "r": {"$numberDouble": "1.0"},
				 "rate": {"$numberDouble": "0.0"}, "cap": {"$numberDouble": "2.0"}, "fly": true,
				 "leased": [{"i": {"$numberLong": "11"}, "u": {"$numberLong": "1767225625123456789"},
				             "n": {"$numberDouble": "1.0"}}]}
			],
			"refused": {
				"w": "quota", "n": {"$numberInt": "3"}, "f": {"$numberLong": "1767225600123456787"},
				"a": {"$numberLong": "1767225600123456788"}, "g": {"$numberLong": "1000000000"},
				"p": {"$numberLong": "1767225601123456789"}, "o": {"$numberLong": "1767225600123456786"},
				"b": [{"i": {"$numberLong": "4"}, "s": {"$numberLong": "60000000000"},
				       "a": {"$numberLong": "1767225600123456788"}}]
			},
			"ids": [{"$numberLong": "5"}, {"$numberLong": "-6"}],
			"forgot": {"$numberLong": "1767222000123456789"}
		}`: whole(),
		`{
			"gen": {"$numberLong": "0"},
			"v": {"$numberLong": "1"},
			"at": {"$numberLong": "1000000000"},
			"blocked": {"$numberLong": "0"},
			"meters": [
				{"n": "m", "s": {"$numberDouble": "0.0"}, "r": {"$numberDouble": "0.0"},
				 "rate": {"$numberDouble": "1.0"}, "cap": {"$numberDouble": "0.0"}}
			],
			"refused": null,
			"ids": null,
			"forgot": {"$numberLong": "0"}
		}`: {At: time.Unix(1, 0).UTC(), Version: 1, Meters: []bucket.Balance{{Name: "m", Filling: bucket.Filling{Rate: 1}}}},
	} {
		var stands, wanted bson.M
		raw := stored.Encode(b)
		err := errors.Join(bson.Unmarshal(raw, &stands), bson.UnmarshalExtJSON([]byte(want), true, &wanted))
		if diff := cmp.Diff(wanted, stands); err != nil || diff != "" {
			t.Errorf("encoded: %v\n%s", err, diff)
		}
		if again, err := stored.DecodeBucket(raw); err != nil || !cmp.Equal(again, b) {
			t.Errorf("decoded: %v: %s", err, cmp.Diff(b, again))
		}
	}
}
