package llm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// A fault of an address never shows the address, wherever a slip of the keyboard has put the password.
func TestFaultsOfAddressesDoNotShowThem(t *testing.T) {
	t.Parallel()
	const password = "hunter2-secret"
	for _, address := range []string{
		"https:/u:" + password + "@h/v1", "u:" + password + "@h", "https//u:" + password + "@h", "https:u:" + password + "@h",
		"https:///u:" + password + "@h", "HTTPS:/" + password, password, "//u:" + password + "@h/v1",
		"ftp://u:" + password + "@h",
		"https://u:" + password + "@h/v1", "https://[u:" + password + "@h", "https://u:%zz" + password + "@h",
	} {
		_, err := llm.NewClient(llm.Config{BaseURL: address})
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != "base_url" {
			t.Errorf("%s: %v", address, err)
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("%s is shown: %v", address, err)
		}
		err = web.Config{}.Check(web.Request{URL: address})
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != "url" {
			t.Errorf("%s: %v", address, err)
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("%s is shown: %v", address, err)
		}
	}
	_, err := llm.NewClient(llm.Config{BaseURL: "https://h/v1?key=" + password})
	if err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("a query: %v", err)
	}
}
