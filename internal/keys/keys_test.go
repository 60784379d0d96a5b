package keys_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/embedded"
	"github.com/headway-go/headway/internal/keys"
	"github.com/headway-go/headway/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both stores keep keys by the hashes of their secrets, and a book knows them.
func TestStores(t *testing.T) {
	t.Parallel()
	redis, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	client := redis.Connect()
	t.Cleanup(func() { _ = client.Close() })
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
			if _, ok := book.Find("any"); !ok {
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
			found, ok := book.Find(secret)
			if !ok || found.Tenant != "acme" || found.Budget == nil || *found.Budget != *made.Budget ||
				!found.May("gpt-4o-mini") || found.May("o1") || found.Charges()[0].Key != "acme" {
				t.Errorf("%+v, %v", found, ok)
			}
			if _, ok = book.Find("any"); ok {
				t.Error("an unknown key is known")
			}
			next, other, err := keys.Rotate(ctx, store, made.ID, -time.Second, now)
			if err != nil || next == secret || other.Tenant != "acme" {
				t.Fatal(other, err)
			}
			if err = book.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			if _, ok = book.Find(secret); ok {
				t.Error("an expired key is known")
			}
			if _, ok = book.Find(next); !ok {
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
