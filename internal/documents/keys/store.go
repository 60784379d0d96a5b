package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/internal/documents/mongoerr"
)

// Store keeps keys by the hashes of their secrets.
type Store interface {
	// Put stores a key, in place of one with the hash.
	Put(ctx context.Context, hash string, key Key) error
	// Delete deletes a key, if it is there.
	Delete(ctx context.Context, hash string) error
	// All returns the keys by their hashes. A key that can't be read is left out, and part of the error.
	All(ctx context.Context) (map[string]Key, error)
}

// ErrNotFound is matched where no key has an ID, or several keys have it.
var ErrNotFound = errors.New("no such key")

// Find returns the key with an ID, and its hash.
func Find(ctx context.Context, s Store, id string) (hash string, key Key, err error) {
	all, err := s.All(ctx)
	if err != nil && all == nil {
		return "", Key{}, err
	}
	for _, hash = range slices.Sorted(maps.Keys(all)) {
		if all[hash].ID == id {
			return hash, all[hash], nil
		}
	}
	return "", Key{}, fmt.Errorf("%w: %.40q", ErrNotFound, id)
}

// Create makes a key, and returns its secret, which is stored nowhere.
func Create(ctx context.Context, s Store, key Key, now time.Time) (secret string, made Key, err error) {
	secret = New()
	hash := Hash(secret)
	key.ID, key.Created = IDOf(hash), now.UTC().Truncate(time.Second)
	return secret, key, s.Put(ctx, hash, key)
}

// Rotate makes another key that may do the same. The old one ends after overlap.
func Rotate(
	ctx context.Context, s Store, id string, overlap time.Duration, now time.Time,
) (secret string, made Key, err error) {
	hash, old, err := Find(ctx, s, id)
	if err != nil {
		return "", Key{}, err
	}
	if secret, made, err = Create(ctx, s, old, now); err != nil {
		return "", Key{}, err
	}
	end := now.Add(overlap).UTC().Truncate(time.Second)
	if old.Expires.IsZero() || end.Before(old.Expires) {
		old.Expires = end
	}
	return secret, made, s.Put(ctx, hash, old)
}

// InRedis returns the keys in a hash of Redis.
func InRedis(client redis.UniversalClient) Store { return inRedis{client} }

// redisKey is the hash with the keys, each as JSON.
const redisKey = "headway:{keys}"

type inRedis struct{ client redis.UniversalClient }

func (s inRedis) Put(ctx context.Context, hash string, key Key) error {
	text, err := json.Marshal(key)
	if err != nil {
		return fmt.Errorf("store key %s: %w", key.ID, err)
	}
	if err = s.client.HSet(ctx, redisKey, hash, text).Err(); err != nil {
		return fmt.Errorf("store key %s: %w", key.ID, err)
	}
	return nil
}

func (s inRedis) Delete(ctx context.Context, hash string) error {
	if err := s.client.HDel(ctx, redisKey, hash).Err(); err != nil {
		return fmt.Errorf("delete key %s: %w", IDOf(hash), err)
	}
	return nil
}

func (s inRedis) All(ctx context.Context) (map[string]Key, error) {
	stored, err := s.client.HGetAll(ctx, redisKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	all := map[string]Key{}
	var faults []error
	for hash, text := range stored {
		var key Key
		if err := json.Unmarshal([]byte(text), &key); err != nil {
			faults = append(faults, fmt.Errorf("key %.12s can't be read: %w", hash, err))
			continue
		}
		all[hash] = key
	}
	return all, errors.Join(faults...)
}

// InMongo returns the keys in a collection.
func InMongo(db *mongo.Database) Store {
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return inMongo{db.Collection("headway_keys", settings)}
}

type inMongo struct{ keys *mongo.Collection }

// document is a key with its hash.
type document struct {
	Hash string `bson:"_id"`
	Key  `bson:",inline"`
}

func (s inMongo) Put(ctx context.Context, hash string, key Key) error {
	err := mongoerr.Upsert(ctx, func() error {
		_, err := s.keys.ReplaceOne(ctx, bson.D{{Key: "_id", Value: hash}}, document{Hash: hash, Key: key},
			options.Replace().SetUpsert(true))
		return err
	})
	if err != nil {
		return fmt.Errorf("store key %s: %w", key.ID, err)
	}
	return nil
}

func (s inMongo) Delete(ctx context.Context, hash string) error {
	err := mongoerr.Repeatedly(ctx, func() error {
		_, err := s.keys.DeleteOne(ctx, bson.D{{Key: "_id", Value: hash}})
		return err
	})
	if err != nil {
		return fmt.Errorf("delete key %s: %w", IDOf(hash), err)
	}
	return nil
}

func (s inMongo) All(ctx context.Context) (map[string]Key, error) {
	var stored []bson.Raw
	err := mongoerr.Repeatedly(ctx, func() error {
		found, err := s.keys.Find(ctx, bson.D{})
		if err == nil {
			err = found.All(ctx, &stored)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	all := map[string]Key{}
	var faults []error
	for _, raw := range stored {
		var d document
		if err := bson.Unmarshal(raw, &d); err != nil {
			faults = append(faults, fmt.Errorf("a key can't be read: %w", err))
			continue
		}
		all[d.Hash] = d.Key
	}
	return all, errors.Join(faults...)
}
