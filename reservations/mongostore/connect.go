package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/headway-go/headway/reservations"
)

const (
	// selectionTimeout is how long a call looks for a server. Waiting tasks come back anyway, so it fails fast.
	selectionTimeout = 2 * time.Second
	dialTimeout      = 5 * time.Second
)

// Connect returns a client for the server at uri, which has answered. TLS, credentials and timeouts come from the uri;
// if it sets no timeout, calls look for a server for 2 seconds. An error never shows the uri's credentials; where the
// server does not answer it matches reservations.ErrUnavailable. The caller disconnects the client.
//
// Each change may set more options, as Metrics.Mongo of package metrics does. A change that sets a Monitor has to call
// the one that is there: through it a Store knows whether a call was sent at all.
func Connect(ctx context.Context, uri string, change ...func(*options.ClientOptions)) (*mongo.Client, error) {
	settings, err := clientOptions(uri)
	if err != nil {
		return nil, err
	}
	for _, c := range change {
		c(settings)
	}
	client, err := mongo.Connect(settings)
	if err != nil {
		return nil, fmt.Errorf("connect to MongoDB: %w", withoutCredentials(err, uri))
	}
	if err := client.Ping(ctx, readpref.Primary()); err != nil {
		_ = client.Disconnect(context.WithoutCancel(ctx)) // it never was connected
		hosts := strings.Join(settings.Hosts, ",")
		return nil, fmt.Errorf("%w: connect to MongoDB at %s: %w", reservations.ErrUnavailable, hosts, err)
	}
	return client, nil
}

func clientOptions(uri string) (*options.ClientOptions, error) {
	settings := options.Client().ApplyURI(uri)
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("connect to MongoDB: %w", withoutCredentials(err, uri))
	}
	if settings.ServerSelectionTimeout == nil {
		settings.SetServerSelectionTimeout(selectionTimeout)
	}
	if settings.ConnectTimeout == nil {
		settings.SetConnectTimeout(dialTimeout)
	}
	return settings.SetMonitor(monitor()), nil
}

// withoutCredentials keeps the text of err, less what stands before the @ of uri.
func withoutCredentials(err error, uri string) error {
	_, rest, ok := strings.Cut(uri, "://")
	if !ok {
		rest = uri
	}
	end := strings.LastIndex(rest, "@")
	if end < 0 {
		return err
	}
	text := err.Error()
	user, password, _ := strings.Cut(rest[:end], ":")
	for _, secret := range []string{rest[:end], password, user} {
		if secret == "" {
			continue
		}
		text = strings.ReplaceAll(text, secret, "***")
		if plain, err := url.QueryUnescape(secret); err == nil && plain != "" {
			text = strings.ReplaceAll(text, plain, "***")
		}
	}
	return errors.New(text)
}
