package redact

import (
	"net/url"
	"os"
	"strings"
)

// Proxies are the passwords in the addresses of proxies in the environment of the process, which net/http uses: alone,
// and with their users. A proxy may repeat them in an answer.
func Proxies() (secrets []string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		secrets = append(secrets, Userinfo(os.Getenv(name))...)
	}
	return secrets
}

// Userinfo are the secrets in an address: what it has before its host, and the password alone, as they are written and
// as they are sent. The address need not be valid: a raw password may hold any character.
func Userinfo(address string) (secrets []string) {
	end := strings.LastIndex(address, "@")
	if end < 0 {
		return nil
	}
	user := address[:end]
	if _, rest, found := strings.Cut(user, "://"); found {
		user = rest
	}
	_, password, found := strings.Cut(user, ":")
	if !found {
		password = user
	}
	for _, text := range []string{user, password} {
		secrets = append(secrets, text)
		if plain, err := url.PathUnescape(text); err == nil && plain != text {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}
