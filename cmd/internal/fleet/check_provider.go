package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
)

const (
	// openAIBase is the provider that the environment names by default.
	openAIBase = "https://api.openai.com/v1"
	// providerPatience bounds one request of the check.
	providerPatience = 10 * time.Second
	// modelsMost bounds what is read of an answer.
	modelsMost = 4 << 20
)

// models is the answer to GET /models.
type models struct {
	status int
	known  int // models in the list
	list   bool
}

// askModels asks a provider for its models: the one request that costs nothing and needs the key.
func askModels(ctx context.Context, base, key string) (models, error) {
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/models", nil)
	if err != nil {
		return models{}, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // the text has the address already
		}
		return models{}, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, modelsMost))
	if err != nil {
		return models{}, err
	}
	var parsed struct {
		Data []json.RawMessage `json:"data"`
	}
	isList := json.Unmarshal(body, &parsed) == nil && parsed.Data != nil
	return models{status: answer.StatusCode, known: len(parsed.Data), list: isList}, nil
}

// checkProvider asks a provider for its models. The error says which setting is at fault: the address in baseName or
// the key in keyName.
func checkProvider(ctx context.Context, base, key, baseName, keyName string) (detail string, err error) {
	m, err := askModels(ctx, base, key)
	switch dns := (*net.DNSError)(nil); {
	case errors.As(err, &dns):
		return "", &connect.ServiceError{
			Setting: baseName, Address: base, Kind: connect.ErrUnreachable, Err: fmt.Errorf("DNS: %w", err),
		}
	case err != nil:
		return "", &connect.ServiceError{Setting: baseName, Address: base, Kind: connect.ErrUnreachable, Err: err}
	case m.status == http.StatusUnauthorized, m.status == http.StatusForbidden:
		return "", &cli.UsageError{Err: fmt.Errorf("%s: %s refuses the key: it answers %d", keyName, base, m.status)}
	case m.status == http.StatusNotFound:
		if deeper, _ := askModels(ctx, strings.TrimRight(base, "/")+"/v1", key); deeper.status != 0 &&
			deeper.status != http.StatusNotFound {
			return "", &cli.UsageError{Err: fmt.Errorf("%s: %s lacks its path: set it to %s/v1",
				baseName, base, strings.TrimRight(base, "/"))}
		}
		return base + " answers, and has no list of models: neither path nor key could be checked", nil
	case m.status != http.StatusOK:
		return fmt.Sprintf("%s answers %d: the key could not be checked", base, m.status), nil
	case !m.list:
		return "", &cli.UsageError{Err: fmt.Errorf("%s: %s/models is no list of models: is it the address of an "+
			"OpenAI-style API?", baseName, base)}
	}
	return fmt.Sprintf("%s answers, models %d", base, m.known), nil
}
