package connect

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// severalSchemes begin addresses that name several hosts.
//
//nolint:gochecknoglobals // constant
var severalSchemes = []string{"redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}

// replicaOptions read from replicas, which may lack what their master has just acknowledged.
//
//nolint:gochecknoglobals // constant
var replicaOptions = []string{"read_only", "replica_only", "route_by_latency", "route_randomly"}

var (
	errSentinelShape = errors.New("it must look like redis+sentinel://user:password@host:26379,host:26379/master/0, " +
		"or rediss+sentinel:// for TLS; user and password are Redis's")
	errClusterShape = errors.New("it must look like redis+cluster://user:password@host:6379,host:6379/, or " +
		"rediss+cluster:// for TLS")
)

// several is an address of several hosts, in parts.
type several struct {
	secure, cluster bool
	user            *url.Userinfo
	hosts           []string
	path            []string
	options         url.Values
}

// namesSeveral reports whether an address has one of severalSchemes.
func namesSeveral(address string) bool {
	scheme, _, _ := strings.Cut(address, "://")
	return slices.Contains(severalSchemes, strings.ToLower(scheme))
}

// severalOf reads an address that addressFault accepts.
func severalOf(address string) (s several, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	kind, family, _ := strings.Cut(strings.ToLower(scheme), "+")
	s.secure, s.cluster = kind == "rediss", family == "cluster"
	shape := errSentinelShape
	if s.cluster {
		shape = errClusterShape
	}
	authority := authorityOf(rest)
	at := strings.LastIndex(authority, "@")
	one, err := url.Parse("redis://" + authority[:at+1] + "h" + rest[len(authority):])
	if err != nil || one.Fragment != "" {
		return s, shape
	}
	s.user, s.options = one.User, one.Query()
	s.path = strings.FieldsFunc(one.Path, func(r rune) bool { return r == '/' })
	for host := range strings.SplitSeq(authority[at+1:], ",") {
		if host, err = withPort(host, s.cluster); err != nil {
			return s, err
		}
		s.hosts = append(s.hosts, host)
	}
	for _, option := range replicaOptions {
		if s.options.Has(option) {
			return s, fmt.Errorf("its option %s reads from replicas, which may lack the last writes: leave it out", option)
		}
	}
	return s, nil
}

// withPort is host:port, with the usual port of a Sentinel or of a cluster's node.
func withPort(text string, cluster bool) (string, error) {
	u, err := url.Parse("redis://" + text)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("a host or port of it can't be read: write host:port,host:port")
	}
	port := u.Port()
	switch {
	case port != "":
	case cluster:
		port = "6379"
	default:
		port = "26379"
	}
	if n, failed := strconv.Atoi(port); failed != nil || n < 1 || n > 65535 {
		return "", errors.New("a port of it must be 1-65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// plain is the address in the form of go-redis: the first host, and the others as options.
func (s several) plain(path string, user *url.Userinfo) string {
	u := url.URL{Scheme: "redis", Host: s.hosts[0], Path: path, User: user}
	if s.secure {
		u.Scheme = "rediss"
	}
	options := url.Values{}
	maps.Copy(options, s.options)
	options["addr"] = s.hosts[1:]
	u.RawQuery = options.Encode()
	return u.String()
}

// take removes an option, and returns its value.
func (s several) take(option string) string {
	value := s.options.Get(option)
	s.options.Del(option)
	return value
}

// sentinel returns the options of the client that follows the master of a Sentinel.
func (s several) sentinel() (*redis.FailoverOptions, error) {
	if len(s.path) == 0 || len(s.path) > 2 {
		return nil, errSentinelShape
	}
	db := "0"
	if len(s.path) == 2 {
		db = s.path[1]
	}
	if n, err := strconv.Atoi(db); err != nil || n < 0 {
		return nil, errors.New("what follows the name of the master must be the number of a database: /mymaster/0")
	}
	user, password := s.take("sentinel_username"), s.take("sentinel_password")
	text := s.plain("/"+db, nil)
	options, err := redis.ParseFailoverURL(text)
	if err != nil {
		return nil, optionFault(text, err, errSentinelShape)
	}
	options.MasterName, options.SentinelUsername, options.SentinelPassword = s.path[0], user, password
	options.Username = s.user.Username()
	options.Password, _ = s.user.Password()
	if options.TLSConfig != nil {
		options.TLSConfig = tlsOf(options.TLSConfig.InsecureSkipVerify)
	}
	return options, nil
}

// nodes returns the options of the client of a cluster.
func (s several) nodes() (*redis.ClusterOptions, error) {
	if len(s.path) > 1 || len(s.path) == 1 && s.path[0] != "0" {
		return nil, errors.New("a cluster has the database 0 alone: leave the path out")
	}
	skip := false
	if text := s.take("skip_verify"); text != "" {
		var err error
		if skip, err = strconv.ParseBool(text); err != nil {
			return nil, optionReason("skip_verify")
		}
	}
	text := s.plain("", s.user)
	options, err := redis.ParseClusterURL(text)
	if err != nil {
		return nil, optionFault(text, err, errClusterShape)
	}
	if options.TLSConfig != nil {
		options.TLSConfig = tlsOf(skip)
	}
	// Each client of a node would leave a goroutine of these notifications, which only a hosted Redis sends.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if options.PoolSize == 0 {
		options.PoolSize = 10 * runtime.GOMAXPROCS(0) // as one Redis has: all waitlists are on one node
	}
	return options, nil
}
