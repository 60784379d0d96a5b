package keeper

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/estimates"
)

// ErrMalformed means that the collection contains a document that was not written by this package.
var ErrMalformed = errors.New("keeper: malformed document")

// The stored form. Processes only add to counts, so the order of their writes does not matter.
//
//	_id      "limit/model", escaped
//	limit, model
//	at       when it was last written
//	number   of the current generation; missing for 0
//	g7       the counts of generation 7: n; reserved, used; "0_n" of each kind; "0_120" of each kind and bin
const (
	fieldLimit  = "limit"
	fieldModel  = "model"
	fieldAt     = "at"
	fieldNumber = "number"
	prefix      = "g"
	seenField   = "n" // of a kind
)

func documentID(k estimates.Key) string {
	return url.PathEscape(k.Limit) + "/" + url.PathEscape(k.Model)
}

func generation(number int64) string { return prefix + strconv.FormatInt(number, 10) }

// addition returns the update that adds counts.
func addition(key estimates.Key, number int64, c *estimates.Counts) bson.M {
	in := generation(number) + "."
	inc := bson.M{in + "n": c.N, in + "reserved": c.Reserved, in + "used": c.Used}
	for kind := range c.Ratios {
		if seen := c.Seen[kind]; seen > 0 {
			inc[fmt.Sprintf("%s%d_%s", in, kind, seenField)] = seen
		}
		for bin, n := range c.Ratios[kind] {
			if n > 0 {
				inc[fmt.Sprintf("%s%d_%d", in, kind, bin)] = n
			}
		}
	}
	return bson.M{
		"$inc":         inc,
		"$set":         bson.M{fieldAt: time.Now()},
		"$setOnInsert": bson.M{fieldLimit: key.Limit, fieldModel: key.Model, fieldNumber: number},
	}
}

// next returns the update that begins the generation after number. It drops all older generations than number.
func next(number int64, found bson.Raw) bson.M {
	update, old := bson.M{"$set": bson.M{fieldNumber: number + 1}}, bson.M{}
	elements, _ := found.Elements() // found was decoded before
	for _, e := range elements {
		digits, ok := strings.CutPrefix(e.Key(), prefix)
		n, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil && n != number && n != number+1 {
			old[e.Key()] = ""
		}
	}
	if len(old) > 0 {
		update["$unset"] = old
	}
	return update
}

func decode(raw bson.Raw) (key estimates.Key, s estimates.State, err error) {
	var d struct {
		Limit  string `bson:"limit"`
		Model  string `bson:"model"`
		Number int64  `bson:"number"`
	}
	if err = bson.Unmarshal(raw, &d); err == nil && (d.Number < 0 || d.Number > countMost) {
		err = fmt.Errorf("generation %d", d.Number)
	}
	if err == nil {
		s.Number = d.Number
		if s.Current, err = countsIn(raw, d.Number); err == nil {
			s.Previous, err = countsIn(raw, d.Number-1)
		}
	}
	if err != nil {
		return key, s, fmt.Errorf("%w: %v: %w", ErrMalformed, raw.Lookup("_id"), err)
	}
	return estimates.Key{Limit: d.Limit, Model: d.Model}, s, nil
}

// countMost is more than a generation can count. sumMost is more than its requests can use.
const (
	countMost = 1e9
	sumMost   = 1e24
)

// sane returns n, or zero if n can't be a sum.
func sane(n float64) float64 {
	if n >= 0 && n <= sumMost {
		return n
	}
	return 0
}

// countsIn decodes the counts of one generation. They are empty if the generation is missing.
func countsIn(raw bson.Raw, number int64) (c estimates.Counts, err error) {
	value := raw.Lookup(generation(number))
	if value.IsZero() {
		return c, nil
	}
	var fields map[string]float64
	if err = value.Unmarshal(&fields); err != nil {
		return c, err
	}
	if n := fields["n"]; !(n >= 0 && n <= countMost) {
		return estimates.Counts{N: estimates.Generation}, nil // malformed: ends the generation, without ratios
	}
	c.N, c.Reserved, c.Used = int64(fields["n"]), sane(fields["reserved"]), sane(fields["used"])
	for name, n := range fields {
		first, second, _ := strings.Cut(name, "_")
		kind, err := strconv.Atoi(first)
		if err != nil || kind < 0 || kind >= int(estimates.Kinds) || !(n > 0 && n <= countMost) {
			continue
		}
		if second == seenField {
			c.Seen[kind] = int64(n)
		} else if bin, err := strconv.Atoi(second); err == nil && bin >= 0 && bin < estimates.Bins {
			c.Ratios[kind][bin] = int64(n)
		}
	}
	return c, nil
}
