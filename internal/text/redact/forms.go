package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parts are the secrets that a value holds: the value as HTTP sends it, without spaces around it, and the credentials
// behind the name of a scheme. A user and a password that Basic packs are parts too.
func parts(value string) []string {
	all := []string{value}
	words := strings.Fields(value)
	if len(words) == 0 || len(words) > 2 {
		return append(all, strings.TrimSpace(value))
	}
	credentials := words[len(words)-1]
	all = append(all, strings.TrimSpace(value), credentials)
	plain, err := base64.StdEncoding.DecodeString(credentials)
	if user, password, ok := bytes.Cut(plain, []byte(":")); err == nil && ok && readable(user) && readable(password) {
		all = append(all, string(plain), string(password))
	}
	return all
}

// readable says whether a text is one that people type.
func readable(text []byte) bool {
	return utf8.Valid(text) && !bytes.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// formsOf are the texts to look for, in which escapes are written out, for one secret.
func formsOf(secret string) []string {
	forms := []string{secret}
	quoted := strconv.Quote(secret) // control characters have escapes of their own
	for _, text := range []string{secret, strings.ReplaceAll(secret, " ", "+"), quoted[1 : len(quoted)-1]} {
		if form := decoded(text); len(form) >= Shortest {
			forms = append(forms, form)
		}
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			forms = append(forms, packed(encoding, secret, before))
		}
	}
	return append(forms, hex.EncodeToString([]byte(secret)))
}

// packed is the part of a text in base64 that depends on the secret alone, which starts before bytes behind a multiple
// of three.
func packed(encoding *base64.Encoding, secret string, before int) string {
	const bitsOfByte, bitsOfLetter = 8, 6
	all := encoding.EncodeToString(append(make([]byte, before), secret...))
	from := (bitsOfByte*before + bitsOfLetter - 1) / bitsOfLetter
	return all[from : bitsOfByte*(before+len(secret))/bitsOfLetter]
}
