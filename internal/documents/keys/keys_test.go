package keys_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both stores keep keys by the hashes of their secrets, and a book knows them.
func TestStores(t *testing.T) {
	t.Parallel()
	client := memredis.Start(t)
	for name, store := range map[string]keys.Store{
		"redis": keys.InRedis(client), "mongo": keys.InMongo(testenv.Database(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, now := t.Context(), time.Now()
			book, err := keys.Open(ctx, store, true)
			if err != nil || !book.Empty() {
				t.Fatal(err)
			}
			if _, ok := book.Find(ctx, "any"); !ok {
				t.Error("a book without keys refuses a caller on loopback")
			}
			secret, made, err := keys.Create(ctx, store, keys.Key{
				Tenant: "acme", Limits: []string{"tenants:acme"}, Models: []string{"gpt-4o*"},
				Budget: &keys.Budget{Amount: 5, Period: time.Hour, Unit: "usd"},
			}, now)
			if err != nil || !strings.HasPrefix(secret, keys.Prefix) || strings.Contains(secret, made.ID) {
				t.Fatal(secret, made, err)
			}
			if err = book.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			found, ok := book.Find(ctx, secret)
			if !ok || found.Tenant != "acme" || found.Budget == nil || *found.Budget != *made.Budget ||
				!found.May("gpt-4o-mini") || found.May("o1") || found.Charges()[0].Key != "acme" {
				t.Errorf("%+v, %v", found, ok)
			}
			if _, ok = book.Find(ctx, "any"); ok {
				t.Error("an unknown key is known")
			}
			next, other, err := keys.Rotate(ctx, store, made.ID, -time.Second, now)
			if err != nil || next == secret || other.Tenant != "acme" {
				t.Fatal(other, err)
			}
			if err = book.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			if _, ok = book.Find(ctx, secret); ok {
				t.Error("an expired key is known")
			}
			if _, ok = book.Find(ctx, next); !ok {
				t.Error("the new key is not known")
			}
			hash, _, err := keys.Find(ctx, store, other.ID)
			if err != nil || hash != keys.Hash(next) {
				t.Fatal(hash, err)
			}
			if err = store.Delete(ctx, hash); err != nil {
				t.Fatal(err)
			}
			if _, _, err = keys.Find(ctx, store, other.ID); !errors.Is(err, keys.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// counted is a store in memory that counts its readings.
type counted struct {
	keys.Store

	all   map[string]keys.Key
	reads int
}

func (c *counted) Put(_ context.Context, hash string, key keys.Key) error {
	c.all[hash] = key
	return nil
}

func (c *counted) All(context.Context) (map[string]keys.Key, error) {
	c.reads++
	return maps.Clone(c.all), nil
}

// A key that was made a moment ago is known at once, and a thousand guesses read the store once.
func TestAKeyIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), &counted{all: map[string]keys.Key{}}
		book, err := keys.Open(ctx, store, false)
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := keys.Create(ctx, store, keys.Key{Tenant: "acme"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := book.Find(ctx, secret); !ok || key.Tenant != "acme" {
			t.Errorf("a new key is not known: %+v", key)
		}
		<-time.After(time.Second)
		before := store.reads
		for range 1000 {
			if _, ok := book.Find(ctx, keys.New()); ok {
				t.Fatal("a guess is known")
			}
			if _, ok := book.Find(ctx, "sk-other"); ok {
				t.Fatal("a key of a provider is known")
			}
		}
		if n := store.reads - before; n != 1 {
			t.Errorf("a thousand guesses read the store %d times", n)
		}
	})
}
