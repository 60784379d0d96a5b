package connect

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The texts of this file have no part of an address but its scheme and the names of its options. Each other part may
// belong to a password that is not escaped.

var (
	errNotRedis = errors.New("it must look like redis://user:password@host:port/0, or rediss:// for TLS, " +
		"with special characters as %XX")
	errNotMongo = errors.New("it must look like mongodb://user:password@host:port/database, " +
		"with special characters as %XX")
	errHost   = errors.New("it has no @ before its host, or the host is IPv6 without brackets")
	errEscape = errors.New("an @, /, ?, # or % in its user, password or options must be written as %40, %2F, %3F, %23 " +
		"or %25")
)

// redisSchemes says why a scheme of other clients is not supported, and what to write instead.
func redisSchemes(scheme string) string {
	switch {
	case strings.Contains(scheme, "sentinel"):
		return errSentinelShape.Error()
	case strings.Contains(scheme, "cluster"):
		return errClusterShape.Error()
	}
	switch scheme {
	case "valkey", "keydb", "dragonfly", "garnet", "tcp", "redis+tcp":
		return "write redis:// in place of " + scheme + "://"
	case "valkeys", "redis+tls", "redis+ssl", "tls", "ssl":
		return "write rediss:// in place of " + scheme + "://"
	case "redis+socket", "redis+unix", "redis-socket", "unix+redis":
		return "write unix:// in place of " + scheme + "://"
	case "http", "https":
		return "this is the address of a REST API. Write the one that begins with redis:// or rediss://"
	case "mongodb", "mongodb+srv":
		return "this is an address of MongoDB, for MONGODB_URI"
	case "amqp", "amqps", "memcached", "postgres", "postgresql", "mysql", "sqs", "kafka", "nats":
		return scheme + ":// is another service. Write redis://host:port/0"
	}
	return ""
}

// mongoSchemes is as redisSchemes, for MongoDB.
func mongoSchemes(scheme string) string {
	switch scheme {
	case "redis", "rediss", "valkey":
		return "this is an address of Redis, for REDIS_URL"
	case "http", "https":
		return "this is the address of a web page or of a REST API. Write the one that begins with mongodb:// or " +
			"mongodb+srv://"
	case "mongo", "documentdb", "cosmosdb", "ferretdb", "mongodb+tls", "mongodb+ssl", "mongodb-srv":
		return "write mongodb:// or mongodb+srv:// in place of " + scheme + "://"
	case "postgres", "postgresql", "mysql", "sqlite":
		return scheme + ":// is another service. Write mongodb://host:port/database"
	}
	return ""
}

// addressFault returns why an address can't be used, or nil. Shape is the error of an address of no known scheme, and
// reason says why other schemes are not supported.
func addressFault(address string, shape error, known []string, reason func(scheme string) string) error {
	scheme, rest, found := strings.Cut(address, "://")
	switch scheme = strings.ToLower(scheme); {
	case strings.TrimRight(address, " \t\r\n") != address:
		return errors.New("it ends with a space or a line end: take it off")
	case strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return errors.New("it has a space or a control character: write it as %XX")
	case !found:
		return fmt.Errorf("it has no scheme: %w", shape)
	case !slices.Contains(known, scheme):
		if why := reason(scheme); why != "" {
			return errors.New(why)
		}
		return fmt.Errorf("its scheme is unknown: %w", shape)
	}
	authority := authorityOf(rest)
	if strings.Contains(rest[len(authority):], "@") || badEscape.MatchString(authority) {
		return errEscape
	}
	for host := range strings.SplitSeq(authority[strings.LastIndex(authority, "@")+1:], ",") {
		if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
			return errHost
		}
	}
	return nil
}

// authorityOf is the part of an address before its path, options and fragment, without the scheme.
func authorityOf(rest string) string {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end]
	}
	return rest
}

// badEscape is a % that begins no escape.
var badEscape = regexp.MustCompile(`%(?:$|[^0-9A-Fa-f]|[0-9A-Fa-f](?:$|[^0-9A-Fa-f]))`)

// optionShape is the shape of a name of an option that is shown.
var optionShape = regexp.MustCompile(`^[A-Za-z_]{1,40}$`)

// redisFault returns why an address of Redis can't be used, or nil.
func redisFault(address string) error {
	known := append([]string{"redis", "rediss", "unix"}, severalSchemes...)
	if err := addressFault(address, errNotRedis, known, redisSchemes); err != nil {
		return err
	}
	if namesSeveral(address) {
		return nil // severalOf checks it
	}
	_, rest, _ := strings.Cut(address, "://")
	authority := authorityOf(rest)
	if strings.Contains(authority[strings.LastIndex(authority, "@")+1:], ",") {
		return errors.New("it names several hosts: write redis+cluster://host:port,host:port/ for a cluster, " +
			"redis+sentinel://host:port,host:port/master/0 for Sentinel, or one host")
	}
	_, err := redis.ParseURL(address)
	if err == nil {
		return nil
	}
	_, parsed := url.Parse(address)
	switch text := err.Error(); {
	case parsed != nil && strings.Contains(parsed.Error(), "invalid port"):
		return errors.New("its port is no number. " + errEscape.Error())
	case parsed != nil:
		return errNotRedis
	case strings.Contains(text, "invalid database number"), strings.Contains(text, "invalid URL path"):
		return errors.New("what follows the host must be the number of a database: redis://host:port/0")
	}
	return optionFault(address, err, errNotRedis)
}

// optionFault returns the reason of the option that go-redis names in its error, or else shape.
func optionFault(address string, err, shape error) error {
	u, parsed := url.Parse(address)
	if parsed != nil {
		return shape
	}
	for name := range u.Query() {
		if optionShape.MatchString(name) && strings.Contains(err.Error(), name) {
			return optionReason(name)
		}
	}
	return shape
}

// optionReason says why an option of an address of Redis is not taken.
func optionReason(name string) error {
	lower := strings.ToLower(name)
	switch {
	case strings.HasPrefix(lower, "ssl_"), strings.HasPrefix(lower, "tls_"), lower == "insecure":
		return fmt.Errorf("its option %s is of other clients. rediss:// checks certificates; skip_verify=true leaves that "+
			"out", name)
	case lower == "ssl", lower == "tls", lower == "sslmode":
		return fmt.Errorf("its option %s is of other clients. Write rediss:// for TLS, redis:// without", name)
	case strings.Contains(lower, "sentinel"), lower == "master_name":
		return fmt.Errorf("its option %s is of other clients. For Sentinel %w", name, errSentinelShape)
	case strings.Contains(lower, "cluster"), lower == "addr":
		return fmt.Errorf("its option %s is of other clients. For a cluster %w", name, errClusterShape)
	}
	return fmt.Errorf("its option %s is unknown, or has a value that can't be read. Use options of go-redis, such "+
		"as read_timeout=3s", name)
}
