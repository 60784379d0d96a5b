package connect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/connect"
)

// The error of a Redis that does not answer names the command that needs no services. MongoDB is optional there.
func TestUnreachableRedisNamesDev(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]bool{"REDIS_URL": true, "MONGODB_URI": false} {
		err := &connect.ServiceError{Setting: setting, Kind: connect.ErrUnreachable, Err: errors.New("refused")}
		if text := err.Error(); strings.Contains(text, "`headway dev`") != want {
			t.Error(text)
		}
	}
}
