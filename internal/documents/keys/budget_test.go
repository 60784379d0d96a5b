package keys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Any process knows the limit of a budget by the name of its bucket, whatever its limits are.
func TestBudgetInItsName(t *testing.T) {
	t.Parallel()
	if _, ok := (keys.Key{}).Spend(1); ok {
		t.Error("a key without a budget spends")
	}
	limiter, err := reservations.New(memstore.New(), nil, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []keys.Budget{
		{Amount: 50, Period: 24 * time.Hour, Unit: "USD"},
		{Amount: 1e-9, Period: time.Minute, Unit: "eur"},
		{Amount: 12345678.25, Period: 90 * time.Second, Unit: "usd"},
	} {
		charge, ok := keys.Key{ID: "1f2e3d4c5b6a", Budget: &b}.Spend(b.Amount / 4)
		if err = limiter.Validate(charge); !ok || err != nil {
			t.Fatalf("%+v: %+v, %v", b, charge, err)
		}
		grant, err := limiter.Allow(t.Context(), charge)
		if err != nil || !grant.Started() {
			t.Fatalf("%+v: %v", b, err)
		}
		m := grant.Outcomes()[0].Bucket.Meters[0]
		if m.Filling.Capacity != b.Amount || charge.Tokens[m.Name] != b.Amount/4 {
			t.Errorf("%+v: %+v", b, m)
		}
		spent := keys.Spent([]reservations.Charge{charge, {Limit: "openai", Tokens: reservations.Tokens{"requests": 1}}}, 2)
		if len(spent) != 1 || spent[m.Name] != 2 {
			t.Errorf("%v", spent)
		}
	}
	for _, key := range []string{
		"", "k:1:usd", "k:x/1m0s:usd", "k:1/x:usd", "k:1/1m0s:usd:more", "k:-1/1m0s:usd", "k:1/1m0s:",
	} {
		charge := reservations.Charge{Limit: bucket.BudgetLimit, Key: key, Tokens: reservations.Tokens{"usd": 1}}
		if err := limiter.Validate(charge); !errors.Is(err, reservations.ErrUnknownLimit) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
