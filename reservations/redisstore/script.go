package redisstore

import (
	"embed"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/lua"
)

// The keys, below root. All times are whole microseconds of Redis's clock, in 16 digits.
//
//	bucket:NAME  string: the header, then the bucket as BSON, which is empty after a reset. The header is the epoch in
//	             which it was written, and the ID of the call that wrote it.
//	epoch        string: when this run of the server was first seen, and its run_id
//	queue:NAME   list: IDs of calls that lost a swap. Only the first of them may swap; if it does not for queueKept, the
//	             whole queue is forgotten
//	state:ID     list: for the call that has become the first of its queue, what loadScript returns
//	overrides    hash: overrides as BSON, by limit and meter
const root = "headway:{buckets}:"

const (
	keyEpoch     = root + "epoch"
	keyOverrides = root + "overrides"

	anyHeader = "any"
	noHeader  = "none"

	timeSize   = 16
	headerSize = 2 * timeSize
)

func keyBucket(name string) string { return root + "bucket:" + name }
func keyQueue(name string) string  { return root + "queue:" + name }
func keyState(call string) string  { return root + "state:" + call }

//go:embed lua
var files embed.FS

//nolint:gochecknoglobals // constant
var (
	loadScript = newScript("preamble", "load")
	swapScript = newScript("preamble", "swap")
)

// script is a Lua script.
type script struct{ source, hash string }

func newScript(names ...string) script {
	source := lua.Source(files, names...)
	return script{source: source, hash: redis.NewScript(source).Hash()}
}
