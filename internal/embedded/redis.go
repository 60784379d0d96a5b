// Package embedded runs a Redis inside the process. It keeps all data in memory. It serves `headway demo`,
// `headway dev`, and tests in virtual time.
package embedded

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Redis is a Redis server in memory.
type Redis struct {
	server *miniredis.Miniredis
	info   string

	mu       sync.Mutex // guards commands
	commands map[string]int64

	listener *listener // nil without one
}

// New returns a server without a listener and without a password. Keys expire by time.Now, so by the clock of a
// testing/synctest bubble if New is called in one. The caller closes the server.
func New() *Redis {
	r := &Redis{server: miniredis.NewMiniRedis(), info: info(rand.Text()), commands: map[string]int64{}}
	first, err := r.server.Dial() // starts the server without a listener
	if err != nil {
		panic(fmt.Sprintf("start miniredis: %v", err)) // only a listener can fail
	}
	_ = first.Close()
	r.server.ClockTTL(true)
	r.server.Server().SetPreHook(r.hook)
	return r
}

// Serve serves a connection until either end closes it. It returns at once.
func (r *Redis) Serve(conn net.Conn) { r.server.Server().ServeConn(conn) }

// Commands returns how many commands clients sent, without the commands that scripts call.
func (r *Redis) Commands() (n int64) {
	for _, of := range r.CommandsByName() {
		n += of
	}
	return n
}

// CommandsByName returns Commands by the upper-case name of the command.
func (r *Redis) CommandsByName() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.commands)
}

// Close closes all connections and waits until their goroutines end. The data is gone.
func (r *Redis) Close() {
	if r.listener != nil {
		r.listener.close()
	}
	r.server.Close()
}

func (r *Redis) hook(c *server.Peer, command string, args ...string) bool {
	r.mu.Lock()
	r.commands[command]++
	r.mu.Unlock()
	if command == "INFO" && len(args) == 1 && (strings.EqualFold(args[0], "server") || strings.EqualFold(args[0], "memory")) {
		c.WriteBulk(r.info)
		return true
	}
	return false
}

// info returns the fields of INFO that redisstore reads, which miniredis lacks. Run is the ID of this run of the server.
func info(run string) string {
	return "run_id:" + strings.ToLower(run) + "\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
}
