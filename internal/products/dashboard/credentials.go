package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// shortest is the least length of a password or a token, in bytes.
const shortest = 12

// ErrCredentials is matched by all faults of credentials.
var ErrCredentials = errors.New("dashboard: invalid credentials")

// Credentials are what a request has to carry: a name and a password (basic authentication), or a token
// (Authorization: Bearer TOKEN), which a proxy may add. Either is enough where both are set.
type Credentials struct {
	User, Password string
	Token          string
}

// Empty says that no request needs credentials.
func (c Credentials) Empty() bool { return c == Credentials{} }

// Validate returns all faults. They match ErrCredentials and show no secret.
func (c Credentials) Validate() error {
	var faults []error
	if (c.User == "") != (c.Password == "") {
		faults = append(faults, fmt.Errorf("%w: a user needs a password, and a password a user", ErrCredentials))
	}
	if c.Password != "" && len(c.Password) < shortest {
		faults = append(faults, fmt.Errorf("%w: the password must have at least %d characters", ErrCredentials, shortest))
	}
	if c.Token != "" && len(c.Token) < shortest {
		faults = append(faults, fmt.Errorf("%w: the token must have at least %d characters", ErrCredentials, shortest))
	}
	return errors.Join(faults...)
}

// allow says whether a request carries the credentials. It takes the same time for all wrong ones.
func (c Credentials) allow(r *http.Request) bool {
	if c.Empty() {
		return true
	}
	if user, password, ok := r.BasicAuth(); ok && c.Password != "" {
		return equal(user, c.User)&equal(password, c.Password) == 1
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && c.Token != "" {
		return equal(token, c.Token) == 1
	}
	return false
}

func equal(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}
