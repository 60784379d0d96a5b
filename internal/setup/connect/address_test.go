package connect_test

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/connect"
)

// openings connect to the address of a service, without a network.
func openings(address string) map[string]error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	getenv := func(string) string { return address }
	_, redis := connect.Redis(ctx, getenv)
	_, mongo := connect.Mongo(ctx, getenv, io.Discard)
	return map[string]error{"redis": redis, "mongodb": mongo}
}

// An address that is not supported is refused with the reason. A new form is one row.
func TestReasonsOfAddresses(t *testing.T) {
	t.Parallel()
	const invalid = "REDIS_URL is not a valid address: "
	for address, want := range map[string]string{
		"redis-sentinel://h:26379/mymaster":       "it must look like redis+sentinel://",
		"sentinel://h:26379":                      "it must look like redis+sentinel://",
		"redis+sentinel://h:26379":                "it must look like redis+sentinel://",
		"redis+sentinel://h:26379/m/0/1":          "it must look like redis+sentinel://",
		"redis+sentinel://h:26379/m/zero":         "must be the number of a database",
		"redis+sentinel://h:1,:2/m":               "a host or port of it can't be read",
		"redis+sentinel://h:99999/m":              "a port of it must be 1-65535",
		"redis+sentinel://h/m?replica_only=true":  "its option replica_only reads from replicas",
		"redis+sentinel://h/m?read_timeout=soon":  "its option read_timeout is unknown, or has a value",
		"redis+sentinel://u:p@ss#w@h/m":           "must be written as %40",
		"rediss-cluster://h:6379":                 "it must look like redis+cluster://",
		"redis+cluster://h1,h2/1":                 "a cluster has the database 0 alone",
		"redis+cluster://h1,h2?read_only=true":    "its option read_only reads from replicas",
		"redis+cluster://h1,h2?route_randomly=1":  "its option route_randomly reads from replicas",
		"rediss+cluster://h1?skip_verify=perhaps": "its option skip_verify is unknown, or has a value",
		"redis+cluster://h1?family=6":             "its option family is unknown",
		"redis://h1:6379,h2:6379":                 "it names several hosts: write redis+cluster://",
		"redis://u:p@h1:6379,h2:6379/0":           "it names several hosts: write redis+cluster://",
		"valkey://h:6379":                         "write redis:// in place of valkey://",
		"valkeys://h:6379":                        "write rediss:// in place of valkeys://",
		"VALKEY://h:6379":                         "write redis:// in place of valkey://",
		"tcp://h:6379":                            "write redis:// in place of tcp://",
		"redis+tls://h:6379":                      "write rediss:// in place of redis+tls://",
		"redis+socket:///tmp/redis.sock":          "write unix:// in place of redis+socket://",
		"https://h.upstash.example":               "the address of a REST API",
		"mongodb://h/db":                          "for MONGODB_URI",
		"amqp://h":                                "amqp:// is another service",
		"gopher://h":                              "its scheme is unknown: it must look like redis://",
		"h:6379":                                  "it has no scheme",
		"127.0.0.1":                               "it has no scheme",
		"rediss://h:6379/0?ssl_cert_reqs=none":    "its option ssl_cert_reqs is of other clients",
		"rediss://h:6379/0?tls_insecure=1":        "its option tls_insecure is of other clients",
		"redis://h:6379/0?ssl=true":               "its option ssl is of other clients. Write rediss://",
		"redis://h:6379/0?sentinelMasterId=m":     "For Sentinel it must look like redis+sentinel://",
		"redis://h:6379/0?addr=h2:6379":           "For a cluster it must look like redis+cluster://",
		"redis://h:6379/0?family=6":               "its option family is unknown",
		"redis://h:6379/0?read_timeout=soon":      "its option read_timeout is unknown, or has a value",
		"redis://h:6379/zero":                     "must be the number of a database",
		"redis://h:6379/0/1":                      "must be the number of a database",
		"redis://h:port/0":                        "its port is no number",
		"redis://h:6379/0\n":                      "it ends with a space or a line end",
		"redis://h:6379/0 ":                       "it ends with a space or a line end",
		"redis://h:63\t79/0":                      "it has a space or a control character",
		"redis://u:p@ss#word@h:6379/0":            "must be written as %40",
		"redis://u:12/34@h:6379/0":                "must be written as %40",
		"redis://u:12#34@h:6379/0":                "must be written as %40",
		"redis://u:12?34@h:6379/0":                "must be written as %40",
		"redis://u:50%off@h:6379/0":               "must be written as %40",
		"redis://u:p%@h:6379/0":                   "must be written as %40",
		"redis://user:password:6379/0":            "no @ before its host",
		"redis://:password:6379":                  "no @ before its host",
		"redis://a:b@user:password:6379":          "no @ before its host",
		"unix://user:pass:word/redis.sock":        "no @ before its host",
		"redis+cluster://h1:1,user:password:6379": "no @ before its host",
		"redis://fe80::1:6379":                    "no @ before its host, or the host is IPv6 without brackets",
	} {
		if err := openings(address)["redis"]; err == nil || !strings.HasPrefix(err.Error(), invalid+want) &&
			!strings.Contains(err.Error(), want) || strings.Count(err.Error(), "is not a valid address") != 1 {
			t.Errorf("%q: got %v, want %q", address, err, want)
		}
	}
	for address, want := range map[string]string{
		"redis://h/0":                "for REDIS_URL",
		"mongo://h/db":               "write mongodb:// or mongodb+srv:// in place of mongo://",
		"https://cloud.example/db":   "a web page or of a REST API",
		"postgres://h/db":            "postgres:// is another service",
		"h:27017":                    "it has no scheme: it must look like mongodb://",
		"mongodb://h/db\n":           "it ends with a space or a line end",
		"mongodb://u:p@ss#word@h/db": "must be written as %40",
		"mongodb+srv://u:p#w@h/db":   "must be written as %40",
		"mongodb://u:p%@h/db":        "must be written as %40",
		"mongodb://u:p@ss@h/db":      "special characters as %XX",
		"mongodb://u:pass:27017/db":  "no @ before its host",
	} {
		if err := openings(address)["mongodb"]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", address, err, want)
		}
	}
}

// pieces are what the characters of an address leave of a password. No text has such letters.
var pieces = regexp.MustCompile(`[QZJ7]{2,}`)

// Whatever characters a password has, no piece of it is in an error.
func FuzzPasswords(f *testing.F) {
	for _, password := range []string{
		"QZ@JJ#ZZ77", "77#ZZ", "77/QQ", "77?QQ@ZZ", "%QQ", "QQ%7", "a:77#b", "QQ@", "", "@77#",
	} {
		f.Add(password, true)
		f.Add(password, false)
	}
	const letters = "QZJ7@#/?%:&=+"
	f.Fuzz(func(t *testing.T, text string, srv bool) {
		var password strings.Builder
		for _, c := range []byte(text) {
			if at := strings.IndexByte(letters, c); at >= 0 {
				c = letters[at]
			} else {
				c = letters[int(c)%len(letters)]
			}
			password.WriteByte(c)
		}
		for _, scheme := range []string{"redis", "rediss", "redis+cluster", "redis+sentinel", "mongodb"} {
			_ = srv // a name is looked up for +srv
			for service, err := range openings(scheme + "://u:" + password.String() + "@127.0.0.1:1/0") {
				if err == nil {
					t.Fatalf("%s: %q answers", service, password.String())
				}
				if piece := pieces.FindString(err.Error()); piece != "" {
					t.Errorf("%s of %s shows %q of %q: %v", service, scheme, piece, password.String(), err)
				}
			}
		}
	})
}
