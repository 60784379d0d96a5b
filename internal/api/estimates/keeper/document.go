package keeper

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/documents"
)

// ErrMalformed means that the collection contains a document that was not written by this package.
var ErrMalformed = documents.ErrMalformed

// head is the head of the document of one limit and model. Processes only add to counts, so the order of their writes
// does not matter.
type head struct {
	Limit  string `bson:"limit"`
	Model  string `bson:"model"`
	Number int64  `bson:"number"` // of the current generation

	// The counts of a generation: n; reserved, used; "0_n" of each kind; "0_120" of each kind and bin.
	Current  map[string]float64 `bson:"current"`
	Previous map[string]float64 `bson:"previous,omitempty"`
}

const seenField = "n" // of a kind

func documentID(k estimates.Key) string {
	return url.PathEscape(k.Limit) + "/" + url.PathEscape(k.Model)
}

// add adds counts of a generation. Counts of dropped generations are dropped too.
func (h *head) add(key estimates.Key, number int64, c *estimates.Counts) {
	if h.Current == nil {
		*h = head{Limit: key.Limit, Model: key.Model, Number: number, Current: map[string]float64{}}
	}
	to := h.Current
	switch {
	case number < h.Number-1:
		return
	case number == h.Number-1:
		if h.Previous == nil {
			h.Previous = map[string]float64{}
		}
		to = h.Previous
	}
	to["n"] += float64(c.N)
	to["reserved"] += c.Reserved
	to["used"] += c.Used
	for kind := range c.Ratios {
		if seen := c.Seen[kind]; seen > 0 {
			to[fmt.Sprintf("%d_%s", kind, seenField)] += float64(seen)
		}
		for bin, n := range c.Ratios[kind] {
			if n > 0 {
				to[fmt.Sprintf("%d_%d", kind, bin)] += float64(n)
			}
		}
	}
}

// next begins a generation, and drops the one before the last.
func (h *head) next() { h.Number, h.Previous, h.Current = h.Number+1, h.Current, map[string]float64{} }

func decode(d documents.Document) (h head, err error) {
	if d.Version == "" {
		return h, nil
	}
	if err = bson.Unmarshal(d.Head, &h); err == nil && (h.Number < 0 || h.Number > countMost || h.Current == nil) {
		err = fmt.Errorf("generation %d", h.Number)
	}
	if err != nil {
		return head{}, fmt.Errorf("%w: %.200q: %w", ErrMalformed, d.Key, err)
	}
	return h, nil
}

func (h *head) key() estimates.Key { return estimates.Key{Limit: h.Limit, Model: h.Model} }

func (h *head) state() estimates.State {
	return estimates.State{Number: h.Number, Current: countsIn(h.Current), Previous: countsIn(h.Previous)}
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

// countsIn reads the counts of one generation.
func countsIn(fields map[string]float64) (c estimates.Counts) {
	if n := fields["n"]; !(n >= 0 && n <= countMost) {
		return estimates.Counts{N: estimates.Generation} // malformed: ends the generation, without ratios
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
	return c
}
