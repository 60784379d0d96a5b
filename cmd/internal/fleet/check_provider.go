package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/tasks/llm"
)

const (
	// providerPatience bounds one request of the check.
	providerPatience = 10 * time.Second
	// modelsMost bounds what is read of an answer.
	modelsMost = 4 << 20
)

// modelsRequest returns the one request that costs nothing and needs the key. Anthropic lists its models only for
// headers of its own API.
func modelsRequest(ctx context.Context, base, key string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/models", nil)
	switch {
	case err != nil:
		return nil, err
	case r.URL.Hostname() == "api.anthropic.com":
		r.Header.Set("X-Api-Key", key)
		r.Header.Set("Anthropic-Version", "2023-06-01")
	case key != "":
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r, nil
}

// askModels asks a provider for its models, which are nil if the answer is no list. Like a worker it follows no
// redirect, which could take the key elsewhere.
func askModels(ctx context.Context, base, key string) (status int, names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	r, err := modelsRequest(ctx, base, key)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // the text has the address already
		}
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, modelsMost))
	if err != nil {
		return 0, nil, err
	}
	var parsed struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &parsed) != nil || parsed.Data == nil {
		return answer.StatusCode, nil, nil
	}
	names = []string{}
	for _, model := range parsed.Data {
		names = append(names, model.ID)
	}
	return answer.StatusCode, names, nil
}

// providers asks each provider whose key is set for its models. The first one has a fault of the environment.
func (f *findings) providers(
	ctx context.Context, providers config.Providers, fault error, offline bool, getenv func(string) string,
) {
	for _, p := range providers {
		detail := p.BaseURL + ", not asked"
		_, unfit := llm.NewClient(p.Client(getenv)) // secrets has a fault of the key
		if fault == nil && unfit == nil && !offline && !p.Lacks(getenv) {
			detail, fault = checkProvider(ctx, p, getenv(p.Key))
		}
		f.add(strings.TrimSpace("provider "+p.Name), detail, fault)
		fault = nil
	}
}

// checkProvider asks a provider for its models. The error says which setting is at fault: the address or the key.
func checkProvider(ctx context.Context, p config.Provider, key string) (detail string, err error) {
	base, baseName, keyName := p.BaseURL, "OPENAI_BASE_URL", p.Key
	if p.Name != "" {
		baseName, keyName = "providers."+p.Name+".base_url", cmp.Or(p.Key, "providers."+p.Name+".key")
	}
	status, models, err := askModels(ctx, base, key)
	switch dns := (*net.DNSError)(nil); {
	case errors.As(err, &dns):
		return "", &connect.ServiceError{
			Setting: baseName, Address: base, Kind: connect.ErrUnreachable, Err: fmt.Errorf("DNS: %w", err),
		}
	case err != nil:
		return "", &connect.ServiceError{Setting: baseName, Address: base, Kind: connect.ErrUnreachable, Err: err}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "", cli.Usage("%s: %s refuses the key: it answers %d", keyName, base, status)
	case status == http.StatusNotFound:
		deeper, _, _ := askModels(ctx, strings.TrimRight(base, "/")+"/v1", key) // 0 if nothing answers
		if deeper != 0 && deeper != http.StatusNotFound {
			return "", cli.Usage("%s: %s lacks its path: set it to %s/v1", baseName, base, strings.TrimRight(base, "/"))
		}
		return base + " answers, and has no list of models: neither path nor key could be checked", nil
	case status != http.StatusOK:
		return fmt.Sprintf("%s answers %d: the key could not be checked", base, status), nil
	case models == nil:
		return "", cli.Usage("%s: %s/models is no list of models: is it the address of an OpenAI-style API?", baseName, base)
	}
	lines := []string{fmt.Sprintf("%s answers, models %d", base, len(models))}
	for _, model := range p.Models {
		if !slices.Contains(models, model) {
			lines = append(lines, fmt.Sprintf("warning: its list lacks model %q", model))
		}
	}
	return strings.Join(lines, "\n"), nil
}
