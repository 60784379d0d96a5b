package reservations

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/bucket"
)

// BucketName names one bucket. It is comparable, so it can be the key of a map. As text it is "limit" or "limit:key",
// with a shard "limit#2:key".
type BucketName struct {
	// Limit is the name of the limit.
	Limit string
	// Key chooses the bucket of the limit; empty for the bucket that all share.
	Key string
	// Shard is from 1 where the limit has Shards; zero for all shards together, and where there are none.
	Shard int
}

// String is the name as logs, waiting texts and stores show it.
func (b BucketName) String() string { return bucket.Name(b.stored(), b.Key) }

// stored is the name of the limit as a store has it: with the shard. Names of limits hold no '#'.
func (b BucketName) stored() string {
	if b.Shard == 0 {
		return b.Limit
	}
	return b.Limit + "#" + strconv.Itoa(b.Shard)
}

// ParseBucket is the inverse of BucketName.String. The error matches ErrInvalidCharge where no bucket can have the
// name. Its parts are returned all the same, for people.
func ParseBucket(name string) (BucketName, error) {
	limit, key, _ := strings.Cut(name, ":")
	b := BucketName{Limit: limit, Key: key}
	if whole, number, ok := strings.Cut(limit, "#"); ok {
		shard, err := strconv.Atoi(number)
		if err == nil && shard > 0 && strconv.Itoa(shard) == number { // "api#02" is no other name of "api#2"
			b.Limit, b.Shard = whole, shard
		}
	}
	return b, b.validate()
}

// validate refuses a name that no limit can have, and a key that stores could not keep or people could not read as
// it is. Such a key is above bucket.MaxKey or is not UTF-8, or it has a bad character: a control character, a line
// separator or a character that turns the direction of writing. The error matches ErrInvalidCharge.
func (b BucketName) validate() error {
	problem := bucket.NameProblem("key", b.Key, bucket.MaxKey)
	if !nameShape.MatchString(b.Limit) {
		problem = fmt.Sprintf("%q is no name of a limit, which has 1 to 64 letters, digits, '_', '-' or '.'",
			bucket.ShortText(b.Limit))
	}
	if problem == "" {
		return nil
	}
	b.Limit, b.Key = bucket.ShortText(b.Limit), bucket.ShortText(b.Key)
	c := Charge{Limit: b.Limit, Key: b.Key, answered: answered{Shard: b.Shard}}
	return c.fault(ErrInvalidCharge, "", "%s", problem)
}
