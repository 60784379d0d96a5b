// Package mongodocs stores documents in MongoDB 4.4 and later (standalone, replica set, sharded by _id), and in
// FerretDB 2. A majority of servers acknowledges each write.
package mongodocs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongoerr"
)

// Prefix is the beginning of the names of collections.
const Prefix = "headway_"

// The stored document.
//
//	_id      the key
//	version  see documents.Document
//	group, at  the place in the index; missing if the document is not there
//	expires  from then on MongoDB deletes it; missing if it stays
//	size     bytes of the body
//	head, body
const (
	fieldKey     = "_id"
	fieldVersion = "version"
	fieldGroup   = "group"
	fieldAt      = "at"
	fieldExpires = "expires"
	fieldSize    = "size"
	fieldHead    = "head"
	fieldBody    = "body"
)

type store struct{ database *mongo.Database }

// New returns the documents of a database. It sends nothing. The caller disconnects the client.
func New(database *mongo.Database) documents.Store { return store{database} }

func (s store) Collection(name string) documents.Collection {
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return collection{s.database.Collection(Prefix+name, settings)}
}

type collection struct{ in *mongo.Collection }

func (c collection) EnsureIndexes(ctx context.Context) error {
	models := []mongo.IndexModel{
		{Keys: bson.M{fieldExpires: 1}, Options: options.Index().SetName(fieldExpires).SetExpireAfterSeconds(0)},
		{
			Keys:    bson.D{{Key: fieldGroup, Value: 1}, {Key: fieldAt, Value: 1}, {Key: fieldKey, Value: 1}},
			Options: options.Index().SetName(fieldGroup),
		},
	}
	err := mongoerr.Repeatedly(ctx, func() error {
		_, err := c.in.Indexes().CreateMany(ctx, models)
		return err
	})
	if err != nil {
		return c.unavailable("create the indexes of", err)
	}
	return nil
}

// unavailable wraps an error of the driver. The driver's errors name addresses, never credentials.
func (c collection) unavailable(op string, err error) error {
	return fmt.Errorf("%w: %s %s: %w", kindOf(err), op, c.in.Name(), err)
}

func kindOf(err error) error {
	if mongoerr.TooLarge(err) {
		return documents.ErrTooLarge
	}
	return documents.ErrUnavailable
}

func (c collection) Get(ctx context.Context, keys []string, bodies bool) (map[string]documents.Document, error) {
	if len(keys) == 0 {
		return map[string]documents.Document{}, nil
	}
	shown := bson.M{fieldBody: 0}
	if bodies {
		shown = bson.M{}
	}
	all, err := c.find(ctx, bson.M{fieldKey: bson.M{"$in": keys}}, options.Find().SetProjection(shown))
	found := make(map[string]documents.Document, len(all))
	for _, d := range all {
		found[d.Key] = d
	}
	return found, err
}

func (c collection) find(
	ctx context.Context, filter any, o *options.FindOptionsBuilder,
) (found []documents.Document, err error) {
	err = mongoerr.Repeatedly(ctx, func() error {
		found = nil
		cursor, failed := c.in.Find(ctx, filter, o)
		if failed != nil {
			return failed
		}
		defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
		for cursor.Next(ctx) {
			found = append(found, decode(cursor.Current))
		}
		return cursor.Err()
	})
	if err != nil {
		return nil, c.unavailable("read", err)
	}
	return found, nil
}

// decode reads a document. What has another type than it should have is left out, as a reader of Head sees too.
func decode(raw bson.Raw) (d documents.Document) {
	d.Key, _ = raw.Lookup(fieldKey).StringValueOK()
	d.Version, _ = raw.Lookup(fieldVersion).StringValueOK()
	d.Group, _ = raw.Lookup(fieldGroup).StringValueOK()
	d.At = timeOf(raw.Lookup(fieldAt))
	d.Expires = timeOf(raw.Lookup(fieldExpires))
	size, _ := raw.Lookup(fieldSize).AsInt64OK()
	d.Size = int(size)
	d.Head, d.Body = part(raw, fieldHead), part(raw, fieldBody)
	return d
}

func timeOf(v bson.RawValue) time.Time {
	if at, ok := v.TimeOK(); ok {
		return at.UTC()
	}
	return time.Time{}
}

// part returns a copy of an embedded document, as the cursor reuses its memory.
func part(raw bson.Raw, field string) bson.Raw {
	if document, ok := raw.Lookup(field).DocumentOK(); ok {
		return append(bson.Raw{}, document...)
	}
	return nil
}

func (c collection) ByKey(ctx context.Context, r documents.Keys) ([]documents.Document, error) {
	bounds := bson.M{"$gte": r.From, "$lt": r.To}
	if r.After != "" {
		bounds["$gt"] = r.After
	}
	o := options.Find().SetSort(bson.M{fieldKey: 1}).SetLimit(int64(r.Limit)).SetBatchSize(int32(r.Limit)) //nolint:gosec
	return c.find(ctx, bson.M{fieldKey: bounds}, o.SetProjection(bson.M{fieldBody: 0}))
}

func (c collection) ByTime(ctx context.Context, r documents.Times) ([]documents.Document, error) {
	filter, order, after := timesFilter(r), 1, "$gt"
	if r.Newest {
		order, after = -1, "$lt"
	}
	if r.After != nil {
		filter["$or"] = bson.A{
			bson.M{fieldAt: bson.M{after: r.After.At}},
			bson.M{fieldAt: r.After.At, fieldKey: bson.M{after: r.After.Key}},
		}
	}
	o := options.Find().SetSort(bson.D{{Key: fieldAt, Value: order}, {Key: fieldKey, Value: order}})
	o.SetLimit(int64(r.Limit)).SetBatchSize(int32(r.Limit)) //nolint:gosec // a page
	return c.find(ctx, filter, o.SetProjection(bson.M{fieldBody: 0}))
}

func timesFilter(r documents.Times) bson.M {
	filter, bounds := bson.M{fieldGroup: r.Group}, bson.M{}
	since, until := r.Bounds()
	if !since.IsZero() {
		bounds["$gte"] = since
	}
	if !until.IsZero() {
		bounds["$lt"] = until
	}
	if len(bounds) > 0 {
		filter[fieldAt] = bounds
	}
	return filter
}

func (c collection) Count(ctx context.Context, r documents.Times) (int, error) {
	var n int64
	err := mongoerr.Repeatedly(ctx, func() (err error) {
		n, err = c.in.CountDocuments(ctx, timesFilter(r))
		return err
	})
	if err != nil {
		return 0, c.unavailable("count", err)
	}
	return int(n), nil
}

func (c collection) Delete(ctx context.Context, key, version string) (bool, error) {
	var found *mongo.DeleteResult
	err := mongoerr.UnlessApplied(ctx, func() (err error) {
		found, err = c.in.DeleteOne(ctx, bson.M{fieldKey: key, fieldVersion: version})
		return err
	})
	if err != nil {
		return false, c.unavailable("delete in", err)
	}
	return found.DeletedCount > 0, nil
}

// commandBytes bounds the documents of one command. The driver splits larger commands, and then an error does not say
// which parts were written. The server allows 48 MB.
const commandBytes = 32 << 20

// commands splits writes into commands of the driver, by their indexes: new documents are inserted, others updated.
// Each command is in the order of its keys. FerretDB locks each document until the end of a command, and processes
// that lock in one order have no deadlocks.
func commands(writes []documents.Write, errs []error) (all [][]int) {
	order := make([]int, len(writes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(writes[a].Key, writes[b].Key) })
	for _, added := range []bool{true, false} {
		var of []int
		size := 0
		for _, i := range order {
			w := writes[i]
			if errs[i] != nil || (w.Old == "") != added {
				continue
			}
			bytes := len(w.Head) + len(w.Body)
			if len(of) > 0 && size+bytes > commandBytes {
				all, of, size = append(all, of), nil, 0
			}
			of, size = append(of, i), size+bytes
		}
		if len(of) > 0 {
			all = append(all, of)
		}
	}
	return all
}

func (c collection) Put(ctx context.Context, writes []documents.Write) []error {
	errs := make([]error, len(writes))
	for i, w := range writes {
		errs[i] = w.Check()
	}
	for _, of := range commands(writes, errs) {
		// Writes that the server rolled back are sent again.
		_ = pause.Briefly(ctx, func(error) bool { return len(of) > 0 }, func() error {
			of = c.put(ctx, writes, of, errs)
			return errAgain
		})
	}
	return errs
}

// put sends some writes in one command. It returns the writes that changed nothing and may be sent again.
func (c collection) put(ctx context.Context, writes []documents.Write, of []int, errs []error) (again []int) {
	models := make([]mongo.WriteModel, len(of))
	for n, i := range of {
		models[n], errs[i] = modelOf(writes[i]), nil
	}
	result, err := c.in.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	bulk, single := errors.AsType[mongo.BulkWriteException](err)
	switch {
	case err == nil:
	case single && bulk.WriteConcernError == nil:
		for _, e := range bulk.WriteErrors {
			i := of[e.Index]
			if errs[i] = c.unavailable("write to", e); mongoerr.Conflict(e) {
				errs[i] = documents.ErrConflict
			} else if mongoerr.Undone(e) {
				again = append(again, i)
			}
		}
	case mongoerr.TooLarge(err) && len(models) > 1: // together
		for _, i := range of {
			errs[i] = c.Put(ctx, writes[i:i+1])[0]
		}
		return nil
	default:
		for _, i := range of {
			errs[i] = c.unavailable("write to", err)
		}
		if !single && mongoerr.Undone(err) {
			again = of
		}
	}
	if result != nil {
		c.undo(ctx, writes, of, errs, result.UpsertedIDs)
	}
	return again
}

// errAgain stands for the errors of the writes of one command.
var errAgain = errors.New("some writes were rolled back")

// undo deletes documents that a write has made, although it should have changed a stored one: MongoDB deleted that one
// after it was read.
func (c collection) undo(
	ctx context.Context, writes []documents.Write, of []int, errs []error, made map[int64]any,
) {
	for n := range made {
		w := writes[of[n]]
		if w.Old == "" {
			continue
		}
		_, err := c.Delete(ctx, w.Key, w.Version)
		if errs[of[n]] = err; err == nil {
			errs[of[n]] = documents.ErrConflict
		}
	}
}

// modelOf returns the write of a document. An update with an upsert, unlike one without, has an error of its own if
// the document has another version: that of a duplicate key.
func modelOf(w documents.Write) mongo.WriteModel {
	set := bson.M{fieldVersion: w.Version, fieldSize: w.Size, fieldHead: w.Head}
	unset := bson.M{}
	if w.Group != "" {
		set[fieldGroup], set[fieldAt] = w.Group, w.At
	} else {
		unset[fieldGroup], unset[fieldAt] = "", ""
	}
	if w.Expires.IsZero() {
		unset[fieldExpires] = ""
	} else {
		set[fieldExpires] = w.Expires
	}
	switch {
	case w.Body == nil:
	case len(w.Body) <= len(documents.Empty):
		unset[fieldBody], set[fieldSize] = "", 0
	default:
		set[fieldBody] = w.Body
	}
	if w.Old == "" {
		set[fieldKey] = w.Key
		return mongo.NewInsertOneModel().SetDocument(set)
	}
	update := bson.M{"$set": set}
	if len(unset) > 0 {
		update["$unset"] = unset
	}
	return mongo.NewUpdateOneModel().SetFilter(bson.M{fieldKey: w.Key, fieldVersion: w.Old}).SetUpdate(update).
		SetUpsert(true)
}
