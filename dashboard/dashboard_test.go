package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/dashboard"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

const password = "long enough, really"

// fleet is a Redis with a queue, and a limiter.
func fleet(t *testing.T) (redis.UniversalClient, *reservations.Limiter) {
	t.Helper()
	client := memredis.Start(t)
	limiter, err := reservations.New(redisstore.New(client), []reservations.Limit{
		{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 60)}},
	}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask("mail", nil)); err != nil {
		t.Fatal(err)
	}
	return client, limiter
}

// ask asks the page as its user, at a host.
func ask(page http.Handler, method, path, host, user string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(form.Encode()))
	r.Host = host
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, r)
	return answer
}

// A page that its program does not guard answers on this machine alone, or to its user, and changes nothing unless it
// is allowed to.
func TestAccess(t *testing.T) {
	t.Parallel()
	user := dashboard.Config{User: "ops", Password: password}
	changes := user
	changes.AllowChanges = true
	for name, c := range map[string]struct {
		config dashboard.Config
		host   string
		user   string
		looks  int
		pauses int
	}{
		"nothing set":                 {dashboard.Config{}, "127.0.0.1", "", 200, 403},
		"nothing set, elsewhere":      {dashboard.Config{}, "fleet.example", "", 421, 421},
		"a user":                      {user, "fleet.example", "ops", 200, 403},
		"another user":                {user, "fleet.example", "eve", 401, 401},
		"no user":                     {user, "127.0.0.1", "", 401, 401},
		"guarded":                     {dashboard.Config{Guarded: true}, "fleet.example", "", 200, 403},
		"changes of a user":           {changes, "fleet.example", "ops", 200, 303},
		"changes of a guarded server": {dashboard.Config{Guarded: true, AllowChanges: true}, "fleet.example", "", 200, 303},
	} {
		client, limiter := fleet(t)
		page, err := dashboard.Handler(t.Context(), client, limiter, c.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(page, http.MethodGet, "/", c.host, c.user, nil); got.Code != c.looks {
			t.Errorf("%s: a look has status %d", name, got.Code)
		}
		form := url.Values{"queue": {"default"}}
		if got := ask(page, http.MethodPost, "/pause", c.host, c.user, form); got.Code != c.pauses {
			t.Errorf("%s: a change has status %d", name, got.Code)
		}
	}
}

func TestCredentialsAreChecked(t *testing.T) {
	t.Parallel()
	client, limiter := fleet(t)
	for name, config := range map[string]dashboard.Config{
		"changes without credentials": {AllowChanges: true}, "a user alone": {User: "ops"}, "a short token": {Token: "short"},
	} {
		if _, err := dashboard.Handler(t.Context(), client, limiter, config); !errors.Is(err, dashboard.ErrCredentials) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With records the page has batches and dead tasks; with rates it sets them where the fleet reads them.
func TestRecordsAndRates(t *testing.T) {
	t.Parallel()
	client, limiter := fleet(t)
	rates := redisstore.New(client)
	page, err := dashboard.Handler(t.Context(), client, limiter, dashboard.Config{
		Guarded: true, AllowChanges: true, Records: redisstore.Documents(client), Rates: rates, Secrets: []string{"default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/batches": "No batches yet", "/dead": "No dead tasks", "/queues": "***",
	} {
		if got := ask(page, http.MethodGet, path, "a", "", nil); !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s lacks %q:\n%s", path, want, got.Body)
		}
	}
	form := url.Values{"limit": {"api"}, "meter": {"requests"}, "rate": {"30/m"}}
	got := ask(page, http.MethodPost, "/set", "a", "", form)
	set, err := rates.Overrides(t.Context())
	if err != nil || got.Code != http.StatusSeeOther || len(set) != 1 || set[0].Rate != 30 {
		t.Errorf("status %d, set %+v, %v", got.Code, set, err)
	}
}
