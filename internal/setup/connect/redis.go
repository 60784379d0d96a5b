package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
)

// RedisDefault is where Redis is looked for when REDIS_URL is not set.
const RedisDefault = "redis://127.0.0.1:6379/0"

// errNode refuses a node of a cluster that is used as if it had all keys.
var errNode = errors.New("is a node of a cluster: write redis+cluster://host:port/ in place of redis://")

// pingTimeout bounds the first word with a service.
const pingTimeout = 5 * time.Second

// ErrUnreachable is matched when a service did not answer.
var ErrUnreachable = errors.New("is not reachable")

// ErrInvalidURL is matched when an address could not be read. The text never shows the address, which may hold a
// password.
var ErrInvalidURL = errors.New("is not a valid address")

// ErrRefused is matched when a service answered and refused the credentials, or the database.
var ErrRefused = errors.New("refuses the login")

// ErrNotSet is matched when a command needs a service of which no address is given.
var ErrNotSet = errors.New("is not set")

// ServiceError says which setting is meant, where it points to, and what is wrong.
type ServiceError struct {
	Setting string // REDIS_URL or MONGODB_URI
	Address string // host and port, without credentials; empty where unknown
	Kind    error  // ErrUnreachable, ErrRefused, ErrInvalidURL or ErrNotSet
	Err     error
}

func (e *ServiceError) Error() string {
	if errors.Is(e.Kind, ErrInvalidURL) || errors.Is(e.Kind, ErrNotSet) {
		return fmt.Sprintf("%s %v: %v", e.Setting, e.Kind, e.Err)
	}
	if errors.Is(e.Kind, ErrRefused) || e.Setting != "REDIS_URL" && e.Setting != "MONGODB_URI" {
		return fmt.Sprintf("%s: %s %v: %v", e.Setting, e.Address, e.Kind, e.Err)
	}
	text := fmt.Sprintf("%s: %s %v: %v. Start the services with `docker compose up -d`, or set %s",
		e.Setting, e.Address, e.Kind, e.Err, e.Setting)
	if e.Setting == "REDIS_URL" {
		text += "; `headway dev` in another terminal needs none"
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *ServiceError) Unwrap() []error { return []error{e.Kind, e.Err} }

// Redis connects to REDIS_URL and waits for an answer: one Redis (redis://, rediss://, unix://), the master that a
// Sentinel names (redis+sentinel://), or a cluster (redis+cluster://). If it is not set, that is the Redis of a running
// `headway dev`, or else RedisDefault. Getenv is os.Getenv in a command. The caller closes the client.
func Redis(ctx context.Context, getenv func(string) string) (redis.UniversalClient, error) {
	address := getenv("REDIS_URL")
	if address == "" {
		if dev, lives := FindDev(ctx, getenv); lives {
			address = dev.RedisURL
		}
	}
	server, err := serverOf(cmp.Or(address, RedisDefault))
	if err != nil {
		return nil, &ServiceError{Setting: "REDIS_URL", Kind: ErrInvalidURL, Err: err}
	}
	client := server.open(dialOf(ctx))
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := server.greet(ctx, client); err != nil {
		_ = client.Close()
		return nil, server.refusedBy(err)
	}
	return client, nil
}

// server is what an address of Redis names.
type server struct {
	shown string // hosts and ports, and the name of the master
	db    int
	kind  kind
	open  func(Dial) redis.UniversalClient
}

type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// serverOf reads an address. The error has no part of it that may belong to a password.
func serverOf(address string) (server, error) {
	if err := redisFault(address); err != nil {
		return server{}, err
	}
	if !namesSeveral(address) {
		options, err := redis.ParseURL(address)
		if err != nil {
			return server{}, errNotRedis
		}
		if options.TLSConfig != nil {
			options.TLSConfig.MinVersion = tls.VersionTLS12
		}
		open := func(dial Dial) redis.UniversalClient {
			options.Dialer = dial
			return redis.NewClient(options)
		}
		return server{shown: options.Addr, db: options.DB, kind: single, open: open}, nil
	}
	s, err := severalOf(address)
	if err != nil {
		return server{}, err
	}
	hosts := strings.Join(s.hosts, ",")
	if s.cluster {
		options, failed := s.nodes()
		open := func(dial Dial) redis.UniversalClient {
			options.Dialer = dial
			return redis.NewClusterClient(options)
		}
		return server{shown: "the cluster at " + hosts, kind: cluster, open: open}, failed
	}
	options, err := s.sentinel()
	if err != nil {
		return server{}, err
	}
	open := func(dial Dial) redis.UniversalClient {
		options.Dialer = dial
		return redis.NewFailoverClient(options)
	}
	shown := fmt.Sprintf("the master %q of the Sentinel at %s", options.MasterName, hosts)
	return server{shown: shown, db: options.DB, kind: sentinel, open: open}, nil
}

// tlsOf is the setting of TLS of several hosts: each has a certificate of its own name.
func tlsOf(skipVerify bool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skipVerify} //nolint:gosec // an option
}

// greet waits for a sign of life, and refuses a node of a cluster that is used as a single Redis: most keys of it are
// elsewhere.
func (s server) greet(ctx context.Context, client redis.UniversalClient) error {
	if s.kind == cluster {
		return client.Exists(ctx, register.KeyStores).Err() // a PING would ask any node, also one that has left
	}
	var alive *redis.StatusCmd
	var info *redis.StringCmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		alive, info = p.Ping(ctx), p.Info(ctx, "cluster") // a user of Redis may not be allowed INFO
		return nil
	})
	switch {
	case strings.Contains(info.Val(), "cluster_enabled:1"):
		return errNode
	case alive.Val() != "":
		return nil // INFO alone is forbidden
	}
	return err
}

// refusedBy says why Redis did not let a client in.
func (s server) refusedBy(err error) error {
	e := &ServiceError{Setting: "REDIS_URL", Address: s.shown, Kind: ErrUnreachable, Err: err}
	if errors.Is(err, errNode) {
		return &ServiceError{Setting: e.Setting, Kind: ErrInvalidURL, Err: fmt.Errorf("%s %w", s.shown, err)}
	}
	answer := redis.Error(nil)
	if !errors.As(err, &answer) || redis.IsLoadingError(err) {
		return e
	}
	e.Kind = ErrRefused
	switch text := answer.Error(); {
	case s.kind == sentinel && errors.Is(err, redis.Nil):
		e.Err = errors.New("the Sentinel has no master of that name")
	case strings.Contains(text, "cluster support disabled"):
		return &ServiceError{
			Setting: e.Setting, Kind: ErrInvalidURL, Err: fmt.Errorf("%s is none: write redis://host:port/0", s.shown),
		}
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR invalid password"):
		e.Err = fmt.Errorf("wrong user or password (%w)", err)
	case strings.HasPrefix(text, "NOAUTH"):
		e.Err = fmt.Errorf("it needs a password, as in redis://:password@host:port/0 (%w)", err)
	case strings.Contains(text, "DB index"):
		e.Err = fmt.Errorf("it has no database %d (%w)", s.db, err)
	}
	return e
}
