// Package redisdocs stores documents in Redis 6 or later, or in what speaks its protocol. It is for fleets without
// MongoDB and for `headway dev`. Documents are as durable as the Redis, and take its memory.
package redisdocs

import (
	"context"
	"embed"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/calls/lua"
	"github.com/headway-go/headway/internal/documents"
)

// root begins the keys of Redis. Its braces put all of them into one slot of a cluster.
const root = "headway:{documents}:"

// putBytes and putCount bound the documents of one script, as Redis does nothing else meanwhile.
const (
	putBytes = 4 << 20
	putCount = 500
)

//go:embed lua
var files embed.FS

//nolint:gochecknoglobals // constants
var (
	putScript    = lua.Script(files, "put")
	deleteScript = lua.Script(files, "delete")
	rangeScript  = lua.Script(files, "range")
)

type store struct{ client redis.UniversalClient }

// New returns the documents of a Redis. It sends nothing. The caller closes the client.
func New(client redis.UniversalClient) documents.Store { return store{client} }

func (s store) Collection(name string) documents.Collection { return collection{s.client, name} }

type collection struct {
	client redis.UniversalClient
	name   string
}

// The keys of a collection, see put.lua.
func (c collection) keys() string   { return root + c.name + ":keys" }
func (c collection) index() string  { return root + c.name + ":index" }
func (c collection) heads() string  { return root + c.name + ":heads" }
func (c collection) bodies() string { return root + c.name + ":bodies" }
func (c collection) ends() string   { return root + c.name + ":ends" }

func (c collection) all() []string {
	return []string{c.keys(), c.index(), c.heads(), c.bodies(), c.ends()}
}

// EnsureIndexes does nothing: each write maintains the indexes.
func (c collection) EnsureIndexes(context.Context) error { return nil }

func (c collection) unavailable(op string, err error) error {
	return fmt.Errorf("%w: %s %s in Redis: %w", documents.ErrUnavailable, op, c.name, err)
}

const (
	versionEnd = documents.VersionSize
	lastEnd    = versionEnd + 15
	sizeEnd    = lastEnd + 10
	lengthEnd  = sizeEnd + 5
)

// headOf returns the stored head of a document: see put.lua.
func headOf(d documents.Document) string {
	last := int64(0)
	if !d.Expires.IsZero() {
		last = max(1, d.Expires.UnixMilli())
	}
	place := ""
	if d.Group != "" {
		place = placeOf(d)
	}
	return fmt.Sprintf("%s%015d%010d%05d%s%s", d.Version, last, d.Size, len(place), place, string(d.Head))
}

// decode is the reverse of headOf. What was not written by this package has no head.
func decode(key, head string) documents.Document {
	d := documents.Document{Key: key}
	if len(head) < lengthEnd {
		return d
	}
	d.Version = head[:versionEnd]
	last, _ := strconv.ParseInt(head[versionEnd:lastEnd], 10, 64)
	d.Size, _ = strconv.Atoi(head[lastEnd:sizeEnd])
	length, _ := strconv.Atoi(head[sizeEnd:lengthEnd])
	rest := head[lengthEnd:]
	if length < 0 || length > len(rest) {
		return d
	}
	if last > 0 {
		d.Expires = time.UnixMilli(last).UTC()
	}
	if group := length - len(key) - placeTail; group >= 0 && length > 0 {
		d.Group = rest[:group]
		d.At = timeOf(rest[group+1 : group+placeTail])
	}
	d.Head = bson.Raw(rest[length:])
	return d
}

// placeTail is how many bytes of a place are between its group and its key: a zero, and a time.
const placeTail = 1 + 16

// placeOf returns the place of a document in the index. Places are in the order of the groups, the times, and the
// keys.
func placeOf(d documents.Document) string { return d.Group + "\x00" + digitsOf(d.At) + d.Key }

// digitsOf returns a time as 16 digits, in the order of times.
func digitsOf(at time.Time) string {
	return fmt.Sprintf("%016x", uint64(at.UnixMilli())^(1<<63))
}

func timeOf(digits string) time.Time {
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(n ^ (1 << 63))).UTC() //nolint:gosec // as above
}

func (c collection) Get(
	ctx context.Context, keys []string, bodies bool,
) (map[string]documents.Document, error) {
	found := make(map[string]documents.Document, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	var heads, rest *redis.SliceCmd
	_, err := c.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		heads = p.HMGet(ctx, c.heads(), keys...)
		if bodies {
			rest = p.HMGet(ctx, c.bodies(), keys...)
		}
		return nil
	})
	if err != nil {
		return nil, c.unavailable("read", err)
	}
	for i, key := range keys {
		head, stored := heads.Val()[i].(string)
		if !stored {
			continue
		}
		d := decode(key, head)
		if bodies {
			if body, stored := rest.Val()[i].(string); stored {
				d.Body = bson.Raw(body)
			}
		}
		found[key] = d
	}
	return found, nil
}

func (c collection) Put(ctx context.Context, writes []documents.Write) []error {
	errs := make([]error, len(writes))
	var args []any
	var of []int
	size := 0
	flush := func() {
		if len(of) > 0 {
			c.put(ctx, args, of, errs)
		}
		args, of, size = nil, nil, 0
	}
	for i, w := range writes {
		if errs[i] = w.Check(); errs[i] != nil {
			continue
		}
		fate := "keep"
		var body []byte
		switch {
		case w.Body == nil:
		case len(w.Body) <= len(documents.Empty):
			fate, w.Size = "delete", 0
		default:
			fate, body = "set", w.Body
		}
		args, of = append(args, w.Key, w.Old, headOf(w.Document), fate, body), append(of, i)
		if size += len(w.Head) + len(body); size >= putBytes || len(of) == putCount {
			flush()
		}
	}
	flush()
	return errs
}

func (c collection) put(ctx context.Context, args []any, of []int, errs []error) {
	written, err := putScript.Run(ctx, c.client, c.all(), args...).Int64Slice()
	if err == nil && len(written) != len(of) {
		err = fmt.Errorf("%d answers for %d documents", len(written), len(of))
	}
	for n, i := range of {
		switch {
		case err != nil:
			errs[i] = c.unavailable("write to", err)
		case written[n] == 0:
			errs[i] = documents.ErrConflict
		}
	}
}

func (c collection) Delete(ctx context.Context, key, version string) (bool, error) {
	n, err := deleteScript.Run(ctx, c.client, c.all(), key, version).Int()
	if err != nil {
		return false, c.unavailable("delete in", err)
	}
	return n > 0, nil
}

func (c collection) ByKey(ctx context.Context, r documents.Keys) ([]documents.Document, error) {
	from := "[" + r.From
	if r.After != "" && r.After >= r.From {
		from = "(" + r.After
	}
	return c.read(ctx, c.keys(), "ZRANGEBYLEX", from, "("+r.To, r.Limit, 0)
}

// bounds returns the bounds of a range in the index, without After: from <= place < to.
func bounds(r documents.Times) (from, to string) {
	from, to = r.Group+"\x00", r.Group+"\x01"
	since, until := r.Bounds()
	if !since.IsZero() {
		from += digitsOf(since)
	}
	if !until.IsZero() {
		to = r.Group + "\x00" + digitsOf(until)
	}
	return from, to
}

func (c collection) ByTime(ctx context.Context, r documents.Times) ([]documents.Document, error) {
	from, to := bounds(r)
	least, before := "["+from, len(r.Group)+placeTail
	after := ""
	if r.After != nil {
		after = placeOf(documents.Document{Group: r.Group, At: r.After.At, Key: r.After.Key})
	}
	switch {
	case r.Newest && after != "":
		to = min(to, after)
	case after >= from && after != "":
		least = "(" + after
	}
	if r.Newest {
		return c.read(ctx, c.index(), "ZREVRANGEBYLEX", "("+to, least, r.Limit, before)
	}
	return c.read(ctx, c.index(), "ZRANGEBYLEX", least, "("+to, r.Limit, before)
}

func (c collection) Count(ctx context.Context, r documents.Times) (int, error) {
	from, to := bounds(r)
	n, err := c.client.ZLexCount(ctx, c.index(), "["+from, "("+to).Result()
	if err != nil || n > math.MaxInt32 {
		return 0, c.unavailable("count", err)
	}
	return int(n), nil
}

// read reads a range of a sorted set.
func (c collection) read(
	ctx context.Context, set, command, from, to string, limit, before int,
) ([]documents.Document, error) {
	found, err := rangeScript.Run(ctx, c.client, []string{set, c.heads()}, command, from, to, limit, before).StringSlice()
	if err != nil {
		return nil, c.unavailable("read", err)
	}
	all := make([]documents.Document, 0, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		all = append(all, decode(found[i], found[i+1]))
	}
	return all, nil
}
