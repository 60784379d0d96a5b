package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
)

// Encode refuses keys that a store would change, or can't store.
func TestKeysThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"": true, "tenant-ä世": true, strings.Repeat("x", bucket.MaxKey): true,
		"\xff": false, "\xfe": false, "a\xe4": false, "cut \xe4\xb8": false,
		strings.Repeat("x", bucket.MaxKey+1): false, strings.Repeat("x", 17<<20): false,
		"a\x00": false, "a\nforged": false, "a\tb": false, "\x1b[2J": false,
		"\u009b2J": false, "a\u2028b": false, "\u202edesrever": false, "\u2066a": false,
		"a b": true, "e-mail@example.com": true, "joined\u200d\u200c": true,
	} {
		err := envelope.CheckCharges([]reservations.Charge{
			{Limit: "a"}, {Limit: "b", Key: key, Tokens: reservations.Tokens{"r": 1}},
		})
		if (err == nil) != ok || !ok && (!errors.Is(err, reservations.ErrInvalidCharge) || len(err.Error()) > 500) {
			t.Errorf("%.20q of %d bytes: %.300v", key, len(key), err)
		}
	}
}

// Encode refuses names that no limit can have, however long.
func TestLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "A-1_.b": true, strings.Repeat("x", 64): true,
		"": false, " ": false, "a b": false, "a:b": false, "a#2": false, "a\n": false,
		"ä": false, strings.Repeat("x", 65): false, strings.Repeat("x", 17<<20): false,
	} {
		err := envelope.CheckCharges([]reservations.Charge{{Limit: name}})
		if (err == nil) != ok || !ok && (!errors.Is(err, reservations.ErrInvalidCharge) || len(err.Error()) > 500) {
			t.Errorf("%.20q of %d bytes: %.300v", name, len(name), err)
		}
	}
}
