package register_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
)

func open(t *testing.T) (*redis.Client, *register.Register) {
	t.Helper()
	client := memredis.Start(t)
	return client, register.New(client)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testMembers)
}

func testMembers(t *testing.T) {
	_, r := open(t)
	if all, err := r.Members(t.Context()); len(all) != 0 || err != nil {
		t.Fatal(all, err)
	}
	for _, id := range []string{"b", "a", "gone"} {
		if err := r.Renew(t.Context(), id, register.Member{Name: id + ":1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Leave(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	<-time.After(register.RenewEvery)
	names := func() (names []string) {
		all, err := r.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			names = append(names, m.Name)
		}
		return names
	}
	if got := names(); !slices.Equal(got, []string{"a:1", "b:1"}) {
		t.Errorf("members %q", got)
	}
	if err := r.Renew(t.Context(), "b", register.Member{Name: "b:1"}); err != nil {
		t.Fatal(err)
	}
	<-time.After(2*register.RenewEvery + time.Second)
	if got := names(); !slices.Equal(got, []string{"b:1"}) {
		t.Errorf("members %q, a was killed", got)
	}
}

func limit(name string, meters ...reservations.Meter) reservations.Limit {
	return reservations.Limit{Name: name, Meters: meters}
}

func limitsOf(limits ...reservations.Limit) map[string]reservations.Limit {
	return register.ByName(limits)
}

func TestServes(t *testing.T) {
	t.Parallel()
	limits := limitsOf(limit("api", reservations.PerMinute("tokens", 1)))
	m := register.Member{Types: []string{"call"}, Limits: limits}
	adopted := register.Member{Limits: limits, AnyLimit: true}
	tests := []struct {
		need         register.Need
		own, adopted bool
	}{
		{register.Need{Type: "call"}, true, true},
		{register.Need{Type: "other"}, false, true},
		{register.Need{Limit: "api"}, true, true},
		{register.Need{Limit: "api", Meter: "tokens"}, true, true},
		{register.Need{Limit: "api", Meter: "images"}, false, false},
		{register.Need{Limit: "api", Meter: "images", Without: true}, true, true},
		{register.Need{Limit: "api", Meter: "tokens", Without: true}, false, false},
		{register.Need{Limit: "other"}, false, true},
		{register.Need{Limit: "headway-budget", Meter: "usd"}, true, true},
	}
	for _, test := range tests {
		if own, other := m.Serves(test.need), adopted.Serves(test.need); own != test.own || other != test.adopted {
			t.Errorf("%v: %v and %v", test.need, own, other)
		}
	}
}

func TestLacking(t *testing.T) {
	t.Parallel()
	calls, api := register.Need{Type: "call"}, register.Need{Limit: "api"}
	one := register.Member{Types: []string{"call"}}
	other := register.Member{Types: []string{}, Limits: limitsOf(limit("api"))}
	if got := register.Lacking([]register.Member{one, other}, calls, api); got != nil {
		t.Errorf("%v is there", got)
	}
	if got := register.Lacking([]register.Member{one}, calls, api); got == nil || *got != api {
		t.Errorf("%v, want %v", got, api)
	}
	if got := register.Lacking(nil, api); got != nil {
		t.Errorf("without members: %v", got)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	minute, second := reservations.PerMinute, reservations.PerSecond
	here := register.Member{Limits: limitsOf(
		limit("same", minute("a", 1)), limit("other", minute("a", 1), second("b", 1), second("c", 1)),
		limit("mine", minute("a", 1)),
	)}
	there := register.Member{Limits: limitsOf(
		limit("same", minute("a", 1)), limit("other", minute("a", 2), second("c", 1), minute("d", 3)),
		limit("yours", minute("a", 1)),
	)}
	want := []register.Difference{
		{Limit: "other", Meter: "a", Here: "1/m, at most 1 at once", There: "2/m, at most 2 at once"},
		{Limit: "other", Meter: "b", Here: "1/s, at most 1 at once"},
		{Limit: "other", Meter: "d", There: "3/m, at most 3 at once"},
	}
	if got := here.Differences(there); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testReturned)
}

func testReturned(t *testing.T) {
	_, r := open(t)
	now := time.UnixMilli(time.Now().UnixMilli())
	mail, api := register.Need{Type: "mail"}, register.Need{Limit: "api"}
	for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute} {
		got, err := r.Returned(t.Context(), "default/a", mail, now.Add(want))
		if err != nil || got.Round(time.Second) != want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	for _, task := range []string{"default/b", "default/c"} {
		if got, err := r.Returned(t.Context(), task, api, now.Add(4*time.Minute)); got.Round(time.Second) != 0 || err != nil {
			t.Error(got, err)
		}
	}
	want := []register.Lack{{Need: api, Tasks: 2}, {Need: mail, Tasks: 1}}
	got, err := r.Lacked(t.Context(), now.Add(4*time.Minute))
	slices.SortFunc(got, func(a, b register.Lack) int { return b.Tasks - a.Tasks })
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	got, err = r.Lacked(t.Context(), now.Add(6*time.Minute)) // the mail was returned four minutes ago, and waits no more
	if !slices.Equal(got, want[:1]) || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want[:1])
	}
	names, err := r.Unserved(t.Context(), api)
	if err != nil || !slices.Equal(names, []string{"default/b", "default/c"}) {
		t.Errorf("%v, %v", names, err)
	}
	if err = r.Served(t.Context(), api, names); err != nil {
		t.Fatal(err)
	}
	if got, err = r.Lacked(t.Context(), now.Add(5*time.Minute)); len(got) != 1 || got[0].Need != mail || err != nil {
		t.Errorf("%+v, %v are left", got, err)
	}
}
