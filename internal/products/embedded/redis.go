// Package embedded runs a Redis inside the process. It keeps all data in memory. It serves `headway demo`,
// `headway dev`, and tests in virtual time.
//
// The data and most commands are miniredis's. This package runs the scripts, in one prepared Lua state, and decides
// when keys expire: miniredis would prepare a state for each call, and visit each key with each command.
package embedded

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Redis is a Redis server in memory. Its commands run one after the other, scripts and transactions as a whole. It
// refuses the commands of unsupported with an error.
type Redis struct {
	// server's lock guards what follows, up to counting. miniredis's own commands take this lock too.
	server  *miniredis.Miniredis
	serving *server.Server // of the server
	info    string
	scratch *inner      // for commands of this package itself
	nested  map[int]any // by database: the context of a command for which the lock is held, see capture
	scripts *scripts
	expiry  expiry

	clients   sync.Map   // *client by *server.Peer
	names     sync.Map   // names of scripts by their sums
	capturing sync.Mutex // guards captured
	captured  any

	closing sync.Mutex // guards closed
	closed  bool

	counting sync.Mutex // guards counts
	counts   map[string]int64

	listener *listener // nil without one
}

// New returns a server without a listener and without a password. Keys expire by time.Now, so by the clock of a
// testing/synctest bubble if New is called in one. The caller closes the server.
func New() *Redis {
	r := &Redis{
		server: miniredis.NewMiniRedis(), info: info(rand.Text()), nested: map[int]any{}, counts: map[string]int64{},
		expiry: newExpiry(time.Now()),
	}
	first, err := r.server.Dial() // starts the server without a listener
	if err != nil {
		panic(fmt.Sprintf("start miniredis: %v", err)) // only a listener can fail
	}
	_ = first.Close()
	r.serving = r.server.Server()
	r.serving.SetPreHook(r.hook)
	r.scratch = r.newInner()
	r.scripts = newScripts(r)
	return r
}

// Serve serves a connection until either end closes it. It returns at once. After Close it closes the connection.
func (r *Redis) Serve(conn net.Conn) {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed {
		_ = conn.Close()
		return
	}
	r.serving.ServeConn(conn)
}

// Commands returns how many commands clients sent, without the commands that scripts call.
func (r *Redis) Commands() (n int64) {
	r.counting.Lock()
	defer r.counting.Unlock()
	for _, of := range r.counts {
		n += of
	}
	return n
}

// CommandsByName returns Commands by the upper-case name of the command. EVAL and EVALSHA are followed by a space and
// the name of the script: see nameOf.
func (r *Redis) CommandsByName() map[string]int64 {
	r.counting.Lock()
	defer r.counting.Unlock()
	return maps.Clone(r.counts)
}

func (r *Redis) count(name string) {
	r.counting.Lock()
	r.counts[name]++
	r.counting.Unlock()
}

// Close closes all connections and waits until their goroutines end. The data is gone.
func (r *Redis) Close() {
	if r.listener != nil {
		r.listener.close()
	}
	r.closing.Lock()
	r.closed = true
	r.closing.Unlock()
	r.server.Close()
}
