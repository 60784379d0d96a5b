package tracing

import (
	"net/url"
	"strings"

	"github.com/headway-go/headway/internal/text/redact"
)

// keyLeast is the length from which on a part of a path may be a key, in bytes.
const keyLeast = 12

// secrets are the values of the headers, and whatever the addresses of the collector and of proxies have before their
// host. Long parts of the collector's path are secrets too.
func secrets(getenv func(string) string) redact.Secrets {
	values := redact.Proxies()
	for name := range strings.FieldsSeq(headers) {
		for _, entry := range entries(getenv(name)) {
			_, value, found := strings.Cut(entry, "=")
			if !found {
				value = entry
			}
			values = append(values, value)
			if plain, err := url.PathUnescape(value); err == nil {
				values = append(values, plain)
			}
		}
	}
	for name := range strings.FieldsSeq(endpoints) {
		values = append(values, redact.Userinfo(getenv(name))...)
		if u, err := url.Parse(getenv(name)); err == nil {
			for part := range strings.SplitSeq(u.Path, "/") {
				if len(part) >= keyLeast {
					values = append(values, part)
				}
			}
		}
	}
	return redact.New(values...)
}
