package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/text/redact"
)

// The password of a proxy is found in what a proxy or an error may repeat, however the address is written.
//
//nolint:paralleltest // sets variables
func TestPasswordsOfProxies(t *testing.T) {
	const password = "pr0xy#5ecret"
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		for address, hides := range map[string]bool{
			"http://ann:pr0xy%235ecret@proxy.example:3128": true,
			"http://ann:pr0xy#5ecret@proxy.example:3128":   true,
			"ann:pr0xy#5ecret@proxy.example":               true,
			"socks5://pr0xy#5ecret@proxy.example":          true,
			"http://proxy.example:3128":                    false,
			"":                                             false,
		} {
			t.Setenv(variable, address)
			s := redact.New(redact.Proxies()...)
			for _, text := range []string{
				password, "pr0xy%235ecret", base64.StdEncoding.EncodeToString([]byte("ann:" + password)),
			} {
				if got := s.Text("it says " + text); (got != "it says "+text) != hides {
					t.Errorf("%s=%s: %s", variable, address, got)
				}
			}
			if got := s.Text("http://proxy.example:3128"); !strings.Contains(got, "proxy.example") {
				t.Errorf("%s=%s: the host is hidden: %s", variable, address, got)
			}
		}
		t.Setenv(variable, "")
	}
}
