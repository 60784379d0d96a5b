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
)

// RedisDefault is where Redis is looked for when REDIS_URL is not set.
const RedisDefault = "redis://127.0.0.1:6379/0"

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
	return fmt.Sprintf("%s: %s %v: %v. Start the services with `docker compose up -d`, or set %s",
		e.Setting, e.Address, e.Kind, e.Err, e.Setting)
}

// Unwrap returns the kind and the cause.
func (e *ServiceError) Unwrap() []error { return []error{e.Kind, e.Err} }

// Redis connects to REDIS_URL (redis:// or rediss://) and waits for an answer. If it is not set, that is the Redis of a
// running `headway dev`, or else RedisDefault. Getenv is os.Getenv in a command. The caller closes the client.
func Redis(ctx context.Context, getenv func(string) string) (redis.UniversalClient, error) {
	address := getenv("REDIS_URL")
	if address == "" {
		if dev, lives := FindDev(ctx, getenv); lives {
			address = dev.RedisURL
		}
	}
	options, err := redisOptions(address)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, refusedBy(options, err)
	}
	return client, nil
}

// refusedBy says why Redis did not let a client in.
func refusedBy(options *redis.Options, err error) error {
	e := &ServiceError{Setting: "REDIS_URL", Address: options.Addr, Kind: ErrUnreachable, Err: err}
	answer := redis.Error(nil)
	if !errors.As(err, &answer) || redis.IsLoadingError(err) {
		return e
	}
	e.Kind = ErrRefused
	switch text := answer.Error(); {
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR invalid password"):
		e.Err = fmt.Errorf("wrong user or password (%w)", err)
	case strings.HasPrefix(text, "NOAUTH"):
		e.Err = fmt.Errorf("it needs a password, as in redis://:password@host:port/0 (%w)", err)
	case strings.Contains(text, "DB index"):
		e.Err = fmt.Errorf("it has no database %d (%w)", options.DB, err)
	}
	return e
}

func redisOptions(address string) (*redis.Options, error) {
	address = cmp.Or(address, RedisDefault)
	err := redisFault(address)
	var options *redis.Options
	if err == nil {
		options, err = redis.ParseURL(address)
	}
	if err != nil {
		return nil, &ServiceError{Setting: "REDIS_URL", Kind: ErrInvalidURL, Err: err}
	}
	if options.TLSConfig != nil {
		options.TLSConfig.MinVersion = tls.VersionTLS12
	}
	return options, nil
}
