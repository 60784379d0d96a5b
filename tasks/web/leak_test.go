package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/testenv"
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
		got, err := client.Do(t.Context(), r)
		seen := testenv.Shown(err) + fmt.Sprintf("%v %s", got, got.Body)
		if e, ok := errors.AsType[*web.Error](err); ok {
			status, id, body := e.Answered()
			seen += fmt.Sprintf("%d %s %s %v", status, id, body, e.Answer.Header)
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
