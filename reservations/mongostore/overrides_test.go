package mongostore_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

func TestOverrides(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := database(t)
	o := mongostore.New(db, mongostore.Options{})
	if list, err := o.Overrides(ctx); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	whole := reservations.Override{
		Limit: "openai", Meter: "requests", Rate: 300, Period: time.Minute, SetAt: at, By: "ann",
	}
	keyed := reservations.Override{
		Limit: "openai", Key: "a/b:c", Meter: "tokens", Rate: 0.5, Period: 1500 * time.Millisecond, Capacity: 20,
		SetAt: at, By: "bob",
	}
	first := whole
	first.Rate = 100
	for _, set := range []reservations.Override{keyed, first, whole} {
		if err := o.SetOverride(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	list, err := mongostore.New(db, mongostore.Options{Overrides: mongostore.DefaultOverrides}).Overrides(ctx)
	if diff := cmp.Diff([]reservations.Override{whole, keyed}, list); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if there, err := o.UnsetOverride(ctx, "openai", "", "tokens"); there || err != nil {
		t.Errorf("unset what is not there: %v, %v", there, err)
	}
	if there, err := o.UnsetOverride(ctx, "openai", "a/b:c", "tokens"); !there || err != nil {
		t.Errorf("unset: %v, %v", there, err)
	}
	if list, err := o.Overrides(ctx); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOverridesThatAreNone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := database(t)
	o := mongostore.New(db, mongostore.Options{})
	for _, period := range []time.Duration{0, -time.Second, time.Microsecond, 1500 * time.Microsecond} {
		err := o.SetOverride(ctx, reservations.Override{Limit: "openai", Meter: "requests", Rate: 1, Period: period})
		if !errors.Is(err, reservations.ErrInvalidLimit) || !strings.Contains(err.Error(), "requests.period") {
			t.Errorf("%v: %v", period, err)
		}
	}
	byHand := bson.D{{Key: "_id", Value: "by hand"}, {Key: "limit", Value: "a"}, {Key: "rate", Value: "many"}}
	if _, err := db.Collection(mongostore.DefaultOverrides).InsertOne(ctx, byHand); err != nil {
		t.Fatal(err)
	}
	copied := bson.M{
		"_id": "openai/tokens", "limit": "openai", "meter": "requests", "rate": 9., "period": int64(1000),
	}
	if _, err := db.Collection(mongostore.DefaultOverrides).InsertOne(ctx, copied); err != nil {
		t.Fatal(err)
	}
	good := reservations.Override{Limit: "openai", Meter: "requests", Rate: 1, Period: time.Second}
	none, endless, past := good, good, good
	none.Key, none.Rate = "none", math.NaN()
	endless.Key, endless.Capacity = "endless", math.Inf(1)
	for _, set := range []reservations.Override{good, none, endless} {
		if err := o.SetOverride(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	past.Key = "past"
	if err := o.SetOverride(ctx, past); err != nil {
		t.Fatal(err)
	}
	tooShort := bson.D{{Key: "$set", Value: bson.D{{Key: "period", Value: int64(math.MinInt64)}}}}
	if _, err := db.Collection(mongostore.DefaultOverrides).UpdateByID(ctx, "openai:past/requests", tooShort); err != nil {
		t.Fatal(err)
	}
	list, err := o.Overrides(ctx)
	if len(list) != 2 || !errors.Is(err, mongostore.ErrMalformedOverride) {
		t.Fatalf("%v, %v", list, err)
	}
	for _, want := range []string{
		"by hand", `it is stored as "openai/tokens", and its fields say "openai/requests"`,
		`"openai:none/requests": NaN is not a number`, `"openai:endless/requests": +Inf is not a number`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if p := list[1].Period; p != 0 { // no meter can be so; it must not become another one
		t.Errorf("a negative period is %v", p)
	}
}

// Many callers that set the same override at once do not fail. One of them wins.
func TestOverridesSetAtOnce(t *testing.T) {
	t.Parallel()
	o := mongostore.New(database(t), mongostore.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			set := reservations.Override{Limit: "openai", Meter: "requests", Rate: float64(i + 1), Period: time.Second}
			if err := o.SetOverride(t.Context(), set); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := o.Overrides(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOverridesWithoutAServer(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	client, err := mongostore.Connect(t.Context(), uri, testenv.Patient)
	if err != nil {
		t.Fatal(err)
	}
	o := mongostore.New(client.Database(name), mongostore.Options{})
	if err = client.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = o.Overrides(t.Context())
	_, unset := o.UnsetOverride(t.Context(), "a", "", "b")
	set := o.SetOverride(t.Context(), reservations.Override{Limit: "a", Meter: "b", Rate: 1, Period: time.Second})
	for _, err := range []error{err, unset, set} {
		if !errors.Is(err, reservations.ErrUnavailable) {
			t.Errorf("%v is not ErrUnavailable", err)
		}
	}
}
