package config_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/config"
)

// A secret in the wrong place of a file is never printed: not in its fault, and not in another one.
func TestFaultsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	const secret = "sk-l1ve-5ecret"
	const limits = "limits: {a: {meters: {requests: 1/s}}}\n"
	for name, text := range map[string]string{
		"a password in a host":        `http: {allow_hosts: ["https://ann:` + secret + `@api.example"]}`,
		"a host after a password":     `http: {allow_hosts: ["ann:` + secret + `@api.example"]}`,
		"a query in a host":           `http: {allow_hosts: ["api.example?key=` + secret + `"]}`,
		"a path in a host":            `http: {allow_hosts: [api.example/` + secret + `]}`,
		"hosts as a map":              `http: {allow_hosts: {api.example: ` + secret + `}}`,
		"hosts in a list":             `http: {allow_hosts: [[` + secret + `]]}`,
		"the secret as its name":      `http: {allow_hosts: [a], secrets: {` + secret + `: [a]}}`,
		"the same without a host":     `http: {allow_hosts: [a], secrets: {` + secret + `: []}}`,
		"the same with another host":  `http: {allow_hosts: [a], secrets: {` + secret + `: [b]}}`,
		"an assignment":               `http: {allow_hosts: [a], secrets: {"KEY=` + secret + `": [a]}}`,
		"a header":                    `http: {allow_hosts: [a], secrets: {"Bearer ` + secret + `": [a]}}`,
		"the value of the secret":     `http: {allow_hosts: [a], secrets: {KEY: ` + secret + `}}`,
		"the value in a map":          `http: {allow_hosts: [a], secrets: {KEY: {value: ` + secret + `}}}`,
		"the value in the list":       `http: {allow_hosts: [a], secrets: {KEY: ["` + secret + `@a"]}}`,
		"a host with the secret":      `http: {allow_hosts: [a], secrets: {KEY: ["https://ann:` + secret + `@a"]}}`,
		"the value as a host":         `http: {allow_hosts: [a], secrets: {KEY: [` + secret + `]}}`,
		"secrets as a list of values": `http: {allow_hosts: [a], secrets: [` + secret + `]}`,
		"secrets as a text":           `http: {allow_hosts: [a], secrets: ` + secret + `}`,
		"http as a text":              `http: ` + secret,
		"a provider's key":            `providers: {a: {base_url: "https://a/v1", key: ` + secret + `}}`,
		"a provider's address":        `providers: {a: {base_url: "https://ann:` + secret + `@a/v1"}}`,
		"a provider's address, wrong": `providers: {a: {base_url: "https:/` + secret + `"}}`,
		"a key as a list":             `providers: {a: {base_url: "https://a/v1", key: [` + secret + `]}}`,
		"a key as a provider":         `providers: {a: ` + secret + `}`,
	} {
		_, err := config.Parse([]byte(limits + text))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
