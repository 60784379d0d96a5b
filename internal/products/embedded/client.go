package embedded

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// client is a connection. Its goroutine alone uses it.
type client struct {
	inside bool // a peer of this package: the hook leaves its commands alone
	ready  bool // authenticated, and without a subscription
	db     int
	probe  *inner     // runs the connection's commands and collects the answers
	multi  bool       // between MULTI and EXEC
	failed bool       // a command since MULTI was refused
	queue  [][]string // the commands since MULTI
}

// inner is a peer whose answers this package reads.
type inner struct {
	peer *server.Peer
	out  bytes.Buffer
}

func (r *Redis) newInner() *inner {
	i := &inner{}
	i.peer = server.NewPeer(bufio.NewWriter(&i.out))
	r.clients.Store(i.peer, &client{inside: true})
	return i
}

// dispatch runs one command and returns the encoded answer, which the next call overwrites.
func (r *Redis) dispatch(i *inner, context any, command ...string) []byte {
	i.peer.Ctx = context
	i.out.Reset()
	r.serving.Dispatch(i.peer, command)
	i.peer.Flush()
	return i.out.Bytes()
}

// do runs one command for this package itself. The caller holds the lock.
func (r *Redis) do(db int, command ...string) []byte {
	return r.dispatch(r.scratch, r.nested[db], command...)
}

// ask runs one command as if the connection c had sent it. The caller does not hold the lock.
func (r *Redis) ask(c *server.Peer, of *client, command ...string) string {
	answer := string(r.dispatch(of.probe, c.Ctx, command...))
	c.Ctx = of.probe.peer.Ctx // miniredis makes the context with the first command
	return answer
}

// client returns the state of a connection, nil for a peer that a script of miniredis made.
func (r *Redis) client(c *server.Peer) *client {
	if of, found := r.clients.Load(c); found {
		return of.(*client)
	}
	if c.Ctx != nil { // only before the first command of a connection is it nil
		return nil
	}
	of := &client{probe: r.newInner()}
	r.clients.Store(c, of)
	c.OnDisconnect(func() {
		r.clients.Delete(c)
		r.clients.Delete(of.probe.peer)
	})
	return of
}

// capture learns whether a connection may send commands, and the context for the commands of its database that run
// while the lock is held. miniredis makes such a context for the calls of a script, so capture runs a script.
func (r *Redis) capture(c *server.Peer, of *client) bool {
	r.capturing.Lock()
	defer r.capturing.Unlock()
	r.captured = nil
	r.ask(c, of, "EVAL", "return redis.call('PING')", "0")
	if r.captured == nil {
		return false
	}
	r.server.Lock()
	defer r.server.Unlock()
	if r.nested[of.db] == nil {
		r.nested[of.db] = r.captured
	}
	return true
}

// hook runs before each command of miniredis, and answers in its place where it returns true.
func (r *Redis) hook(c *server.Peer, command string, args ...string) bool {
	of := r.client(c)
	if of == nil {
		r.captured = c.Ctx // capture waits for the script
		return false
	}
	if of.inside {
		return false
	}
	r.count(r.name(command, args))
	switch kind := kinds[command]; {
	case kind == unsupported:
		of.failed = true
		c.WriteError("ERR the embedded Redis does not support " + command)
		return true
	case of.multi && (kind == session || kind == blocking):
		of.failed = true
		c.WriteError(fmt.Sprintf("ERR the embedded Redis does not support %s in MULTI", command))
		return true
	case kind == session:
		of.ready = of.ready && (command == "CLIENT" || command == "COMMAND")
		return false
	}
	if !of.ready {
		if of.ready = r.capture(c, of); !of.ready {
			return false // miniredis's answer says why
		}
	}
	switch kind := kinds[command]; {
	case command == "SELECT" && !of.multi:
		r.selectDB(c, of, args)
	case kind == transaction:
		r.transact(c, of, command, args)
	case of.multi:
		r.enqueue(c, of, command, args)
	case kind == blocking:
		r.server.Lock()
		r.expire()
		r.server.Unlock()
		return false
	default:
		r.runFor(c, of, append([]string{command}, args...))
	}
	return true
}

// runFor runs commands of a connection as a whole. It writes the answers after it has released the lock, because a
// write may wait for the client.
func (r *Redis) runFor(c *server.Peer, of *client, commands ...[]string) {
	out := of.probe
	out.out.Reset()
	out.peer.Resp3 = c.Resp3
	func() {
		r.server.Lock()
		defer r.server.Unlock()
		out.peer.Ctx = r.nested[of.db]
		r.expire()
		for _, command := range commands {
			r.run(out.peer, of.db, command)
		}
	}()
	out.peer.Flush()
	out.peer.Resp3 = false
	c.WriteRaw(out.out.String())
}

func (r *Redis) selectDB(c *server.Peer, of *client, args []string) {
	answer := r.ask(c, of, append([]string{"SELECT"}, args...)...)
	if strings.HasPrefix(answer, "+OK") {
		of.db, _ = strconv.Atoi(args[0])
		of.ready = false
	}
	c.WriteRaw(answer)
}
