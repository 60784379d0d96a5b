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

// However a service repeats a secret, neither an error nor what is kept of the answer holds it, in any case of letters
// and with any escapes.
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

// notShown makes a call with the secret, and looks for texts in all that can be seen of the answer.
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
