package llm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/tasks/llm"
)

// If a provider repeats the key, in any letter case and with any escapes, neither the error nor the stored answer
// contains it.
func TestTheKeyDoesNotComeBack(t *testing.T) {
	t.Parallel()
	const key = "Sk-Proj/0123+4567=89_abc"
	for form, text := range testenv.Escaped(key) {
		for name, answer := range testenv.Leaks(text) {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				client, err := llm.NewClient(llm.Config{BaseURL: "http://" + testenv.Raw(t, answer) + "/v1", APIKey: key})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.Close)
				got, err := client.Run(t.Context(), newChat(t, hello), nil)
				seen := testenv.Shown(err) + fmt.Sprintf("%v %s", got, got.Body)
				if e, ok := errors.AsType[*llm.Error](err); ok {
					seen += fmt.Sprintf("%+v %s", *e, e.Body)
				}
				for _, shown := range []string{key, text} {
					if strings.Contains(strings.ToLower(seen), strings.ToLower(shown)) {
						t.Errorf("%q is in %s", shown, seen)
					}
				}
			})
		}
	}
}
