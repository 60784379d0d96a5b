package keeper

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/estimates"
)

// ErrMalformed is matched when the collection holds a document that is none of this package's.
var ErrMalformed = errors.New("keeper: malformed document")

// The stored form. Counts are only ever added to, so the order in which processes write does not matter.
//
//	_id      "limit/model", escaped
//	limit, model
//	at       when it was written last
//	number   of the current generation; missing for 0
//	g7       the counts of generation 7: n; reserved, used; and of each kind and bin, "0_120"
const (
	fieldLimit  = "limit"
	fieldModel  = "model"
	fieldAt     = "at"
	fieldNumber = "number"
	prefix      = "g"
)

func documentID(k estimates.Key) string {
	return url.PathEscape(k.Limit) + "/" + url.PathEscape(k.Model)
}

func generation(number int64) string { return prefix + strconv.FormatInt(number, 10) }

// addition is the one update that adds counts.
func addition(key estimates.Key, number int64, c *estimates.Counts) bson.D {
	in := generation(number) + "."
	inc := bson.D{{Key: in + "n", Value: c.N}, {Key: in + "reserved", Value: c.Reserved}, {Key: in + "used", Value: c.Used}}
	for kind := range c.Ratios {
		for bin, n := range c.Ratios[kind] {
			if n > 0 {
				inc = append(inc, bson.E{Key: fmt.Sprintf("%s%d_%d", in, kind, bin), Value: n})
			}
		}
	}
	return bson.D{
		{Key: "$inc", Value: inc},
		{Key: "$set", Value: bson.D{{Key: fieldAt, Value: time.Now()}}},
		{Key: "$setOnInsert", Value: bson.D{{Key: fieldLimit, Value: key.Limit}, {Key: fieldModel, Value: key.Model}, {Key: fieldNumber, Value: number}}},
	}
}

// next begins the generation after number, and drops all but that and number.
func next(number int64, found bson.Raw) bson.D {
	update := bson.D{{Key: "$set", Value: bson.D{{Key: fieldNumber, Value: number + 1}}}}
	var old bson.D
	elements, _ := found.Elements() // it was decoded before
	for _, e := range elements {
		if n, ok := numberOf(e.Key()); ok && n != number && n != number+1 {
			old = append(old, bson.E{Key: e.Key(), Value: ""})
		}
	}
	if len(old) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: old})
	}
	return update
}

func numberOf(field string) (int64, bool) {
	digits, ok := strings.CutPrefix(field, prefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, ok && err == nil
}

func decode(raw bson.Raw) (key estimates.Key, s estimates.State, err error) {
	var d struct {
		Limit  string `bson:"limit"`
		Model  string `bson:"model"`
		Number int64  `bson:"number"`
	}
	if err = bson.Unmarshal(raw, &d); err == nil {
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

// countMost is more than a generation can count, and sumMost than its requests can take.
const (
	countMost = 1e9
	sumMost   = 1e24
)

// sane is zero for what no sum can be.
func sane(n float64) float64 {
	if n >= 0 && n <= sumMost {
		return n
	}
	return 0
}

// countsIn are those of one generation; none where it is missing.
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
		return estimates.Counts{N: estimates.Generation}, nil // broken: nothing is learned of it, and it ends
	}
	c.N, c.Reserved, c.Used = int64(fields["n"]), sane(fields["reserved"]), sane(fields["used"])
	for name, n := range fields {
		first, second, ok := strings.Cut(name, "_")
		kind, kindErr := strconv.Atoi(first)
		bin, binErr := strconv.Atoi(second)
		if !ok || kindErr != nil || binErr != nil || kind < 0 || kind >= int(estimates.Kinds) || bin < 0 || bin >= estimates.Bins || !(n > 0 && n <= countMost) {
			continue
		}
		c.Ratios[kind][bin] = int64(n)
	}
	return c, nil
}

const (
	codeDuplicate     = 11000
	codeWriteConflict = 112
)

// meets says whether a write did nothing because another one was faster.
func meets(err error) bool {
	var se mongo.ServerError
	return errors.As(err, &se) && (se.HasErrorCode(codeDuplicate) || se.HasErrorCode(codeWriteConflict))
}
