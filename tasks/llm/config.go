package llm

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/reservations"
)

// BaseURLDefault is that of OpenAI.
const BaseURLDefault = "https://api.openai.com/v1"

// TimeoutDefault bounds one call.
const TimeoutDefault = 10 * time.Minute

// MaxBodyDefault bounds an answer, in bytes. The largest requests for embeddings need more, up to 140 MB, or
// encoding_format base64.
const MaxBodyDefault = 32 << 20

// Config says where to call and how. No environment variable is read.
type Config struct {
	// BaseURL is what comes before "chat/completions", e.g. "http://127.0.0.1:8080/v1". Defaults to BaseURLDefault.
	BaseURL string
	// APIKey is sent as a bearer token. It may be empty only where BaseURL is given.
	APIKey string
	// Timeout bounds one call. Defaults to TimeoutDefault.
	Timeout time.Duration
	// HTTPClient makes the calls. Defaults to one of its own that follows no redirects and keeps as many connections as
	// are used at once.
	HTTPClient *http.Client
	// MaxBody bounds an answer, in bytes, unpacked: what is longer is a permanent error that matches ErrTooLarge.
	// Defaults to MaxBodyDefault.
	MaxBody int64
	// Memory is for Headway's commands, whose clients share a budget. Programs leave it out: then the answers that the
	// client holds at once have a budget of 256 MB.
	Memory *intake.Budget
	// Logger is where the client says that it does not believe an answer. Defaults to slog.Default().
	Logger *slog.Logger
	// Sync says what the rate limit headers of answers may do to the bucket of a call, see Client.Run. Defaults to
	// SyncDown.
	Sync Sync
	// Meters names the meter for a kind of limit that the headers speak of, empty for none. Kinds are named as the meters
	// of this package. A kind that is not here stands for the meter of the same name; only the "tokens" of Anthropic
	// stand for none, because they belong to whichever limit is nearest. A call that is not charged for the meter is not
	// concerned.
	Meters map[string]string
	// Header has further headers of each request, e.g. OpenAI-Organization. It replaces headers of the client's own. Not
	// for keys: answers and errors are cleared of APIKey alone.
	Header http.Header
}

// validate joins every fault, each a *reservations.FieldError. No text holds the key.
func (c Config) validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if c.BaseURL != "" {
		u, err := url.Parse(c.BaseURL)
		switch {
		case err != nil:
			fault("base_url", "is not a URL")
		case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
			fault("base_url", "must look like https://host/v1") // without itself, which may hold a password
		case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Contains(c.BaseURL, "@"):
			fault("base_url", "must hold no user, query or fragment")
		}
	}
	if c.APIKey == "" && c.BaseURL == "" {
		fault("api_key", "is missing")
	}
	if problem := httpcall.Sendable(c.APIKey); problem != "" {
		fault("api_key", "%s", problem)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if !httpguts.ValidHeaderFieldName(name) {
			fault("header", "%.60q is not a valid name of a header", name)
			continue
		}
		if httpcall.OfTransport(name) {
			fault("header."+name, "can't be set: the transport sets it")
		}
		for _, value := range c.Header[name] {
			if problem := httpcall.Sendable(value); problem != "" {
				fault("header."+name, "%s", problem)
			}
		}
	}
	if c.Timeout < 0 {
		fault("timeout", "%v must not be negative", c.Timeout)
	}
	if c.MaxBody < 0 {
		fault("max_body", "%d must not be negative", c.MaxBody)
	}
	if c.Sync != "" && c.Sync != SyncDown && c.Sync != SyncBoth && c.Sync != SyncOff {
		fault("sync", "%q must be %q, %q or %q", c.Sync, SyncDown, SyncBoth, SyncOff)
	}
	for _, kind := range slices.Sorted(maps.Keys(c.Meters)) {
		if known := openai.Kinds(); !slices.Contains(known, kind) {
			fault("meters", "%q is not one of %q", kind, known)
		}
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, TimeoutDefault)
	c.BaseURL = cmp.Or(c.BaseURL, BaseURLDefault)
	c.MaxBody = cmp.Or(c.MaxBody, MaxBodyDefault)
	if c.Memory == nil {
		c.Memory = intake.New(0)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Sync, c.Meters = cmp.Or(c.Sync, SyncDown), maps.Clone(c.Meters)
	if c.HTTPClient == nil {
		// Each call that is made has to pass the limit, so none is made again elsewhere.
		last := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.HTTPClient = &http.Client{Transport: intake.Transport(), CheckRedirect: last}
	}
	return c
}

// ErrTooLarge is matched when the body of an answer is above Config.MaxBody.
var ErrTooLarge = errors.New("llm: the answer is too large")
