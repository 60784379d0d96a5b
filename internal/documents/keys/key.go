// Package keys knows which callers may use the gateway: keys, what each may do, and where their hashes are stored.
package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Prefix begins the secret of each key.
const Prefix = "hw_"

// secretBytes is how many random bytes a secret has.
const secretBytes = 32

// Key is what the caller with a secret may do. The secret itself is stored nowhere.
type Key struct {
	// ID names the key in lists and commands: the first digits of its hash.
	ID string `json:"id" bson:"key_id"`
	// Tenant is whose key it is, for people; the flow of its calls if Flow is empty.
	Tenant string `json:"tenant" bson:"tenant"`
	// Limits are the buckets that its calls take from before the limit of the provider, the narrowest first, as
	// LIMIT[:KEY].
	Limits []string `json:"limits,omitempty" bson:"limits,omitempty"`
	// Flow and Priority are what its calls have; see reservations.Charge.
	Flow     string `json:"flow,omitempty" bson:"flow,omitempty"`
	Priority string `json:"priority,omitempty" bson:"priority,omitempty"`
	// Models are the models that it may use, each with wildcards as in "gpt-4o*". None means all.
	Models []string `json:"models,omitempty" bson:"models,omitempty"`
	// Budget is how much money its calls may cost. Nil means any amount.
	Budget *Budget `json:"budget,omitempty" bson:"budget,omitempty"`
	// Created is when the key was made, Expires when it ends. A zero Expires means never.
	Created time.Time `json:"created" bson:"created"`
	Expires time.Time `json:"expires,omitzero" bson:"expires,omitempty"`
}

// New returns a new secret.
func New() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // it never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(secret)
}

// Hash is the hash of a secret. A secret has 256 random bits, so a fast hash is enough.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// idDigits is how many digits of its hash name a key.
const idDigits = 12

// IDOf is the ID of the key with a hash.
func IDOf(hash string) string { return hash[:min(len(hash), idDigits)] }

// Live says whether the key counts at a moment.
func (k Key) Live(now time.Time) bool { return k.Expires.IsZero() || now.Before(k.Expires) }

// May says whether the key may use a model.
func (k Key) May(model string) bool {
	return len(k.Models) == 0 || slices.ContainsFunc(k.Models, func(pattern string) bool {
		matches, err := path.Match(pattern, model)
		return err == nil && matches
	})
}

// Charges are the buckets that the calls of the key take from, without amounts.
func (k Key) Charges() []reservations.Charge {
	charges := make([]reservations.Charge, len(k.Limits))
	for i, text := range k.Limits {
		limit, key, _ := strings.Cut(text, ":")
		charges[i] = reservations.Charge{Limit: limit, Key: key}
	}
	return charges
}
