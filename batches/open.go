package batches

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Named is a request that has no result, with the name its caller gave it.
type Named struct {
	Line     int
	CustomID string
}

// Name stores the names of requests that have no result and may never get one, such as those of a cancelled batch.
// Requests that have a result stay as they are.
func (s *Store) Name(ctx context.Context, batch string, named []Named) error {
	if len(named) == 0 {
		return nil
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	models := make([]mongo.WriteModel, len(named))
	for i, n := range named {
		if err = checkLine(batch, n.Line); err != nil {
			return err
		}
		filter := bson.D{{Key: "_id", Value: documentID(batch, n.Line)}, unfinished()}
		set := bson.M{fieldCustom: name(n.CustomID), fieldExpires: expires}
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.M{"$set": set}).SetUpsert(true)
	}
	_, err = s.results.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil && !mongo.IsDuplicateKeyError(err) { // a duplicate has a result, or another caller names it
		return unavailable("name requests of", batch, err)
	}
	return nil
}

// Rounds returns how often each of the lines from to to (both included) was put back by [Store.Reopen], where it has no
// result now. Lines that were never put back are left out.
func (s *Store) Rounds(ctx context.Context, batch string, from, to int) (map[int]int, error) {
	if err := checkLine(batch, from); err != nil {
		return nil, err
	}
	filter := bson.D{linesOf(batch, from, to), unfinished(), {Key: fieldRound, Value: bson.M{"$gt": 0}}}
	projection := options.Find().SetProjection(bson.M{"_id": 1, fieldRound: 1})
	cursor, err := s.results.Find(ctx, filter, projection)
	if err != nil {
		return nil, unavailable("read the rounds of", batch, err)
	}
	var found []struct {
		ID    string `bson:"_id"`
		Round int    `bson:"round"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, unavailable("read the rounds of", batch, err)
	}
	rounds := map[int]int{}
	for _, d := range found {
		_, line, err := parseDocumentID(d.ID)
		if err != nil {
			return nil, err
		}
		rounds[line] = d.Round
	}
	return rounds, nil
}

// UsageByModel sums up what the results of a batch used, by the model they name. It reads them all.
func (s *Store) UsageByModel(ctx context.Context, batch string) (map[string]Usage, error) {
	if err := checkID(batch); err != nil {
		return nil, err
	}
	found, err := s.count(ctx, batch, 1, maxLine, bson.M{"$ifNull": bson.A{"$model", ""}})
	if err != nil {
		return nil, err
	}
	usage := map[string]Usage{}
	for _, d := range found {
		usage[d.By] = d.Usage
	}
	return usage, nil
}

// Since counts the results that were written at a moment or later, for each slot of time: the first slot begins at that
// moment, the oldest stands first, and empty slots are left out. A slot is at least a millisecond. It reads all results of
// the batch.
func (s *Store) Since(ctx context.Context, batch string, from time.Time, slot time.Duration) ([]Counts, error) {
	if err := checkID(batch); err != nil {
		return nil, err
	}
	age := bson.M{"$subtract": bson.A{"$at", from}} // in ms
	begin := bson.M{"$subtract": bson.A{age, bson.M{"$mod": bson.A{age, max(1, slot.Milliseconds())}}}}
	lately := bson.M{"$gte": bson.A{"$at", from}}
	found, err := s.count(ctx, batch, 1, maxLine, bson.M{"$cond": bson.A{lately, bson.M{"$toString": begin}, ""}})
	if err != nil {
		return nil, err
	}
	var slots []Counts
	for _, d := range found {
		if d.By != "" {
			slots = append(slots, d.Counts)
		}
	}
	slices.SortFunc(slots, func(a, b Counts) int { return a.First.Compare(b.First) })
	return slots, nil
}
