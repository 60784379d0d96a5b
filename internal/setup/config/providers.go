package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// Provider is an OpenAI-style API that workers call.
type Provider struct {
	// Name is the key in the file. It is empty for the provider of the environment, which serves all limits.
	Name string `mapstructure:"-"`
	// BaseURL is the address before "/chat/completions".
	BaseURL string `mapstructure:"base_url"`
	// Key is the environment variable with the key. Empty means that the provider needs no key.
	Key string `mapstructure:"key"`
	// Limits are the limits whose calls go to this provider. Defaults to the limit with the provider's name.
	Limits []string `mapstructure:"limits"`
	// Models are the models for which requests without a named limit take from the only limit.
	Models []string `mapstructure:"models"`
	// Sync says what the rate limit headers of its answers may do to the buckets: see llm.Sync. Empty means its default.
	Sync llm.Sync `mapstructure:"sync"`
}

// Called returns the providers of the file. A file without any leaves that to the environment: OPENAI_BASE_URL and
// OPENAI_API_KEY.
func (c Config) Called(getenv func(string) string) Providers {
	if len(c.Providers) > 0 {
		return c.Providers
	}
	return Providers{{BaseURL: cmp.Or(getenv("OPENAI_BASE_URL"), llm.BaseURLDefault), Key: "OPENAI_API_KEY"}}
}

// Client returns the configuration of a client. The key comes from getenv.
func (p Provider) Client(getenv func(string) string) llm.Config {
	return llm.Config{BaseURL: p.BaseURL, APIKey: getenv(p.Key), Sync: p.Sync}
}

// Lacks reports whether the provider needs a key that is not set.
func (p Provider) Lacks(getenv func(string) string) bool { return p.Key != "" && getenv(p.Key) == "" }

// Providers are the providers of a file, sorted by name. Each limit and each model is in at most one of them.
type Providers []Provider

// For returns the provider that gets the calls of a limit.
func (all Providers) For(limit string) (Provider, bool) {
	i := slices.IndexFunc(all, func(p Provider) bool { return p.Name == "" || slices.Contains(p.Limits, limit) })
	if i < 0 {
		return Provider{}, false
	}
	return all[i], true
}

// Addresses are the addresses of the providers by their limits.
func (all Providers) Addresses() map[string]string {
	addresses := map[string]string{}
	for _, p := range all {
		for _, limit := range p.Limits {
			addresses[limit] = p.BaseURL
		}
	}
	return addresses
}

// Check returns an error if the calls of a limit go to no provider of the file.
func (all Providers) Check(limit string) error {
	if _, known := all.For(limit); known || len(all) == 0 {
		return nil
	}
	return fmt.Errorf("no provider has limit %q: the last limit of a call must be one of providers.*.limits", limit)
}

// LimitOf returns the limit that the requests of a model take from.
func (all Providers) LimitOf(model string) (string, bool) {
	i := slices.IndexFunc(all, func(p Provider) bool { return slices.Contains(p.Models, model) })
	if i < 0 {
		return "", false
	}
	return all[i].Limits[0], true
}

// providers returns the providers with their defaults.
func (f file) providers() (all Providers) {
	for _, name := range slices.Sorted(maps.Keys(f.Providers)) {
		p := f.Providers[name]
		if p.Name = name; len(p.Limits) == 0 {
			p.Limits = []string{name}
		}
		all = append(all, p)
	}
	return all
}

var (
	providerShape = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	// keyShape has no small letters, so that a key in the place of its variable's name is refused, and not printed.
	keyShape = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,99}$`)
)

// providerFaults lists the faults of well-formed providers. No text contains an address or a key.
func (f file) providerFaults(providers Providers) (faults []error) {
	limits, models := map[string]string{}, map[string]string{} // the names of their providers
	for _, p := range providers {
		fault := func(field, format string, args ...any) {
			faults = append(faults, &reservations.FieldError{
				Field: "providers." + p.Name + field, Problem: fmt.Sprintf(format, args...),
			})
		}
		if !providerShape.MatchString(p.Name) {
			fault("", "a name has 1 to 64 letters, digits, '_' and '-'")
		}
		if p.BaseURL == "" {
			fault(".base_url", "is missing: it looks like https://host/v1")
		} else {
			_, err := llm.NewClient(llm.Config{BaseURL: p.BaseURL, Sync: p.Sync})
			faults = append(faults, below("providers."+p.Name, err)...)
		}
		if p.Key != "" && !keyShape.MatchString(p.Key) {
			fault(".key", "must be the name of an environment variable, in capital letters, and not the key itself")
		}
		for _, limit := range p.Limits {
			_, known := f.Limits[limit]
			switch other, taken := limits[limit]; {
			case !known && !f.unread:
				fault(".limits", "there is no limit %q", limit)
			case taken:
				fault(".limits", "limit %q belongs to provider %s", limit, other)
			}
			limits[limit] = p.Name
		}
		for _, limit := range p.Limits {
			for _, meter := range slices.Sorted(maps.Keys(f.Limits[limit].Meters)) {
				if meant := openai.Meant(meter); meant != "" {
					faults = append(faults, &reservations.FieldError{
						Field:   "limits." + limit + ".meters." + meter,
						Problem: fmt.Sprintf("calls of provider %s are not charged for it; did you mean %q?", p.Name, meant),
					})
				}
			}
		}
		if len(p.Models) > 0 && len(p.Limits) > 1 {
			fault(".models", "need one limit, but there are %d: make one provider for each limit", len(p.Limits))
		}
		for _, model := range p.Models {
			if other, taken := models[model]; taken {
				fault(".models", "model %q belongs to provider %s", model, other)
			}
			models[model] = p.Name
		}
	}
	return faults
}
