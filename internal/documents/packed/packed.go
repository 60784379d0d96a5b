// Package packed stores texts in documents: small texts unchanged, so that people can read them, and
// larger texts compressed. It also reads the times of documents.
package packed

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	// packFrom is the size in bytes from which on a body is compressed. zstd packs a chat completion as small as gzip
	// does, in half the time.
	packFrom = 1024

	// maxUnpacked bounds the size of an unpacked body.
	maxUnpacked = 1 << 30

	subtypePlain  = 0x00
	subtypePacked = 0x80 // the first free subtype for users
)

// ErrMalformed means that Pack did not make a stored value.
var ErrMalformed = errors.New("malformed text in a document")

// packer returns the encoder of all stores. It has no goroutines if only EncodeAll is used, and is safe for
// concurrent use.
//
//nolint:gochecknoglobals // lazily made constants
var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(true),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options above are constants
	}
	return e
})

//nolint:gochecknoglobals // lazily made constants
var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // the options above are constants
	}
	return d
})

// Prepare makes the encoder and the decoder of all stores, once. They have channels, and a channel belongs to the
// testing/synctest bubble that makes it: call Prepare before a bubble in which documents are stored.
var Prepare = sync.OnceFunc(func() { //nolint:gochecknoglobals // a constant
	if _, err := Unpack(Pack(make([]byte, 2*packFrom))); err != nil {
		panic(err) // it has just been packed
	}
})

// Pack returns the value of text in a document. A small text stays unchanged, so that people can read it.
func Pack(text []byte) bson.RawValue {
	if len(text) >= packFrom {
		if packed := packer().EncodeAll(text, make([]byte, 0, len(text)/2)); len(packed) < len(text) {
			return valueOf(bson.Binary{Subtype: subtypePacked, Data: packed})
		}
	}
	if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
		return valueOf(string(text))
	}
	return valueOf(bson.Binary{Subtype: subtypePlain, Data: text})
}

func valueOf(v any) bson.RawValue {
	kind, value, err := bson.MarshalValue(v)
	if err != nil {
		panic(err) // texts and binaries can be marshaled
	}
	return bson.RawValue{Type: kind, Value: value}
}

// Unpack is the reverse of Pack. The text belongs to the caller. A missing value gives nil. The error matches
// ErrMalformed.
func Unpack(v bson.RawValue) ([]byte, error) {
	if v.IsZero() {
		return nil, nil
	}
	if text, ok := v.StringValueOK(); ok {
		return []byte(text), nil
	}
	subtype, data, ok := v.BinaryOK()
	switch {
	case ok && subtype == subtypePlain:
		return bytes.Clone(data), nil
	case ok && subtype == subtypePacked:
		text, err := unpacker().DecodeAll(data, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: unpack a body: %w", ErrMalformed, err)
		}
		return text, nil
	}
	return nil, fmt.Errorf("%w: a body of type %s", ErrMalformed, v.Type)
}

// Milliseconds returns a stored time: zero instead of a negative one, and at most the longest time.Duration.
func Milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(0, ms), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
