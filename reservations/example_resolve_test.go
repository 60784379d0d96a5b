package reservations_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// Kind 2: a bucket for each user in a function of a database, whose limits are in the users' table.
func ExampleConfig_resolve() {
	plans := map[string]float64{"ada": 100, "bob": 1} // a table
	limiter, _ := reservations.New(memstore.New(), nil, reservations.Config{
		Resolve: func(_ context.Context, name, user string) (reservations.Limit, error) {
			rate, ok := plans[user]
			if !ok || name != "writes" {
				return reservations.Limit{}, reservations.ErrUnknownLimit
			}
			return reservations.Limit{Meters: []reservations.Meter{{Name: "rows", Rate: rate, Period: time.Minute}}}, nil
		},
	})
	write := func(user string) string {
		charge := reservations.Charge{Limit: "writes", Key: user, Tokens: reservations.Tokens{"rows": 1}}
		g, err := limiter.Allow(context.Background(), charge)
		if err != nil {
			return fmt.Sprint("unknown: ", reservations.IsPermanent(err))
		}
		return g.Outcomes()[0].State
	}
	for _, user := range []string{"bob", "bob", "eve"} {
		fmt.Println(user, write(user))
	}
	// Output:
	// bob started
	// bob refused
	// eve unknown: true
}
