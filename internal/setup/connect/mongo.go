package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// DatabaseDefault holds the buckets where MONGODB_URI names no database.
const DatabaseDefault = "headway"

// briefError says of a failed selection of a server only what the first server failed with: the driver's text lists
// them all.
type briefError struct{ err error }

func (e *briefError) Error() string {
	selection := topology.ServerSelectionError{}
	if errors.As(e.err, &selection) {
		for _, server := range selection.Desc.Servers {
			if server.LastError != nil {
				return server.LastError.Error()
			}
		}
	}
	return e.err.Error()
}

// Unwrap returns the whole error.
func (e *briefError) Unwrap() error { return e.err }

// Mongo connects to MONGODB_URI, waits for an answer and makes sure of the indexes; buckets are kept there as well.
// Getenv is os.Getenv in a command. If the address is not set, the error matches ErrNotSet. While a replica set has no
// primary, Mongo says so once in notice and tries for 30 seconds; with a nil notice it does not try again. Each change
// may set options of the driver. The caller closes the buckets.
func Mongo(
	ctx context.Context, getenv func(string) string, notice io.Writer, change ...func(*options.ClientOptions),
) (*Buckets, error) {
	uri := getenv("MONGODB_URI")
	if uri == "" {
		return nil, &ServiceError{Setting: "MONGODB_URI", Kind: ErrNotSet, Err: errNotMongo}
	}
	if err := addressFault(uri, errNotMongo, []string{"mongodb", "mongodb+srv"}, mongoSchemes); err != nil {
		return nil, &ServiceError{Setting: "MONGODB_URI", Kind: ErrInvalidURL, Err: err}
	}
	parsed, err := connstring.ParseAndValidate(uri)
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) { // mongodb+srv
		return nil, &ServiceError{
			Setting: "MONGODB_URI", Address: dns.Name, Kind: ErrUnreachable,
			Err: fmt.Errorf("DNS has no such name, or does not answer: %s", dns.Err),
		}
	}
	if err != nil {
		return nil, &ServiceError{Setting: "MONGODB_URI", Kind: ErrInvalidURL, Err: errNotMongo}
	}
	database := cmp.Or(parsed.Database, DatabaseDefault)
	hosts := strings.Join(parsed.Hosts, ",")
	b, err := open(ctx, uri, database, change)
	if electing(err) && notice != nil {
		_, _ = fmt.Fprintf(notice, "MongoDB at %s has no primary, as during an election: waiting for one, at most %v\n",
			hosts, electionPatience)
		end := time.Now().Add(electionPatience)
		for electing(err) && time.Now().Before(end) && pause.For(ctx, electionPause) == nil {
			b, err = open(ctx, uri, database, change)
		}
	}
	switch {
	case err == nil:
		b.hosts = hosts
		return b, nil
	case refused(err) != nil:
		return nil, &ServiceError{Setting: "MONGODB_URI", Address: hosts, Kind: ErrRefused, Err: fmt.Errorf(
			"%w. A user may be kept in another database: then add ?authSource=admin; or may not use database %q",
			refused(err), database)}
	case errors.Is(err, reservations.ErrUnavailable):
		return nil, &ServiceError{Setting: "MONGODB_URI", Address: hosts, Kind: ErrUnreachable, Err: &briefError{err}}
	}
	return nil, &ServiceError{Setting: "MONGODB_URI", Kind: ErrInvalidURL, Err: err}
}

// refused returns MongoDB's own text of a failed authentication or a missing right; nil for other errors.
func refused(err error) error {
	const unauthorized, authenticationFailed = 13, 18
	var answer mongo.CommandError
	if errors.As(err, &answer) && (answer.Code == unauthorized || answer.Code == authenticationFailed) {
		return errors.New(answer.Message)
	}
	if err == nil {
		return nil
	}
	if text := (&briefError{err}).Error(); strings.Contains(text, "auth error") {
		return errors.New(text)
	}
	return nil
}

// open connects once.
func open(
	ctx context.Context, uri, database string, change []func(*options.ClientOptions),
) (*Buckets, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	client, err := mongostore.Connect(ctx, uri, change...)
	if err != nil {
		return nil, err
	}
	b := &Buckets{database: client.Database(database)}
	store := mongostore.New(b.database, mongostore.Options{})
	b.Store, b.Overriding, b.records, b.keys = store, store, store, keys.InMongo(b.database)
	if err := store.EnsureIndexes(ctx); err != nil {
		_ = client.Disconnect(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%w: %w", reservations.ErrUnavailable, err)
	}
	return b, nil
}
