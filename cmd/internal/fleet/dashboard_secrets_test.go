package fleet

import (
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// No password of an address is shown: the one of Redis, of its sentinels, and of MongoDB.
func TestPasswordsAreSecrets(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"REDIS_URL": "redis+sentinel://user:of-redis%21@h1:26379,h2:26379/mymaster/0?sentinel_username=s" +
			"&sentinel_password=of-the%2Bsentinel",
		"MONGODB_URI": "mongodb://user:of-mongodb@h1,h2/headway?tlsCertificateKeyFilePassword=of-the-key&retryWrites=true",
	}
	secrets := secretsOf(t.Context(), cli.Environment{Getenv: func(k string) string { return env[k] }}, config.Config{})
	const text = "of-redis! of-the+sentinel of-mongodb of-the-key mymaster retryWrites"
	if got, want := secrets.Text(text), "*** *** *** *** mymaster retryWrites"; got != want {
		t.Errorf("%q is shown as %q, want %q", text, got, want)
	}
}
