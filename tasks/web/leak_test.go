package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// If a service repeats a secret, in any letter case and with any escapes, neither the error nor the stored answer
// contains it.
func TestSecretsDoNotComeBack(t *testing.T) {
	t.Parallel()
	const special = `quo"ted\and<spéc>ial`
	quoted := fmt.Sprintf("%q", special)
	for name, answer := range testenv.Leaks(special) {
		notShown(t, name, special, answer, special, quoted[1:len(quoted)-1])
	}
	const plain = "Sk-Proj/0123+4567=89_abc"
	for form, text := range testenv.Escaped(plain) {
		for name, answer := range testenv.Leaks(text) {
			notShown(t, name+", "+form, plain, answer, plain, text)
		}
	}
}

// notShown makes a call with the secret, and looks for texts in everything that is visible of the answer.
func notShown(t *testing.T, name, secret, answer string, texts ...string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		address := testenv.Raw(t, answer)
		client := newClient(t, web.Config{
			AllowHosts: []string{address},
			Secrets:    map[string]web.Secret{"KEY": {Value: secret, Hosts: []string{"http://" + address}}},
		})
		r := web.Request{URL: "http://" + address + "/", Header: map[string]string{"Authorization": "Bearer ${KEY}"}}
		got, err := client.Run(t.Context(), r, nil)
		seen := testenv.Shown(err) + fmt.Sprintf("%v %s", got, got.Body)
		if e, ok := errors.AsType[*web.Error](err); ok {
			seen += fmt.Sprintf("%+v %s", e.Answer, e.Answer.Body)
		}
		text, failed := json.Marshal(got)
		if seen += string(text); failed != nil {
			t.Error(failed)
		}
		for _, text := range texts {
			if strings.Contains(strings.ToLower(seen), strings.ToLower(text)) {
				t.Errorf("%q is in %s", text, seen)
			}
		}
	})
}

// A task can't have the service pack its answer, where no value is found, and an answer that is packed unasked is none.
func TestPackedAnswersAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "Sk-Proj/0123+4567=89_abc"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(secret)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	answer := "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nConnection: close\r\n\r\n"
	for _, encoding := range []string{"br", "deflate", "zstd", "gzip, gzip", "x-gzip", "GZIP, identity"} {
		address := testenv.Raw(t, fmt.Sprintf(answer, encoding)+packed.String())
		client := newClient(t, web.Config{AllowHosts: []string{address}})
		got, err := client.Run(t.Context(), web.Request{URL: "http://" + address}, nil)
		if !errors.Is(err, web.ErrPacked) || !errors.Is(err, tasks.ErrPermanent) || len(got.Body) > 0 {
			t.Errorf("%s: %q, %v", encoding, got.Body, err)
		}
	}
	address := testenv.Raw(t, fmt.Sprintf(answer, "Identity")+"plain")
	client := newClient(t, web.Config{AllowHosts: []string{address}})
	if got, err := client.Run(t.Context(), web.Request{URL: "http://" + address},
		nil); err != nil || string(got.Body) != "plain" {
		t.Errorf("identity: %q, %v", got.Body, err)
	}
	for _, name := range []string{"Accept-Encoding", "accept-encoding", "ACCEPT-ENCODING"} {
		r := web.Request{URL: "http://" + address, Header: map[string]string{name: "gzip"}}
		err := web.Config{AllowHosts: []string{address}}.Check(r)
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || !strings.EqualFold(fault.Field, "header."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
