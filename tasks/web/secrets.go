package web

import (
	"fmt"
	"net/http"
	"strings"
)

// noSecrets knows none.
func noSecrets(string) (string, bool) { return "", false }

// header is what is sent, with its secrets filled in, and those secrets.
func (c Config) header(r Request) (header http.Header, secrets []string, err error) {
	header = http.Header{}
	for _, name := range sorted(r.Header) {
		value, found, err := c.fill(name, r.Header[name])
		if err != nil {
			return nil, nil, err
		}
		header.Set(name, value)
		secrets = append(secrets, found...)
	}
	return header, secrets, nil
}

// fill replaces each ${NAME} in the value of a header. What a secret holds is not looked at again.
func (c Config) fill(header, value string) (filled string, secrets []string, err error) {
	var b strings.Builder
	for rest := value; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String(), secrets, nil
		}
		name, tail, closed := strings.Cut(after, "}")
		fault := func(problem string) (string, []string, error) {
			return "", nil, &RequestError{Field: fmt.Sprintf("header.%.60s", header), Problem: problem}
		}
		if !closed {
			return fault("has a ${ without its }")
		}
		secret, ok := c.Secrets(name)
		switch {
		case !ok:
			return fault(fmt.Sprintf("wants the secret %.60q, which is not one that workers may send: list it under http.secrets", name))
		case !isValue(secret):
			return fault(fmt.Sprintf("wants the secret %.60q, which has a control character", name))
		}
		b.WriteString(secret)
		if secret != "" {
			secrets = append(secrets, secret)
		}
		rest = tail
	}
}

// without is a text from outside without the secrets, at most messageLength bytes of it.
func without(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	if len(text) > messageLength {
		text = text[:messageLength] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
