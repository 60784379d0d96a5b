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

// However a service repeats a secret, neither an error nor what is kept of the answer holds it, in any case of letters.
func TestSecretsDoNotComeBack(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{secret, `quo"ted\and<spéc>ial`} {
		for name, answer := range testenv.Leaks(secret) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				address := testenv.Raw(t, answer)
				client := newClient(t, web.Config{
					AllowHosts: []string{address}, Secrets: map[string]web.Secret{"KEY": {Value: secret, Hosts: []string{"http://" + address}}},
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
				quoted := fmt.Sprintf("%q", secret)
				for _, form := range []string{secret, quoted[1 : len(quoted)-1]} {
					if strings.Contains(strings.ToLower(seen), strings.ToLower(form)) {
						t.Errorf("%q is in %s", form, seen)
					}
				}
			})
		}
	}
}
