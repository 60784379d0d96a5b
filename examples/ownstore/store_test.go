package ownstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/examples/ownstore"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		return storetest.Instance{Store: &ownstore.Store{Now: clock.Now}, Advance: clock.Advance}
	})
}

func TestStoreOnItsClock(t *testing.T) {
	t.Parallel()
	storetest.RunLive(t, func(*testing.T) storetest.Instance {
		return storetest.Instance{Store: &ownstore.Store{Now: time.Now}}
	})
}

// A limiter takes a store of your own as any other.
func Example() {
	limits := []reservations.Limit{{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 1)}}}
	limiter, err := reservations.New(&ownstore.Store{Now: time.Now}, limits, reservations.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}
	for range 2 {
		grant, err := limiter.Allow(context.Background(), charge)
		fmt.Println(err == nil && grant.Started())
	}
	// Output:
	// true
	// false
}
