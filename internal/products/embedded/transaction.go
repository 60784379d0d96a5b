package embedded

import (
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// transact runs MULTI, EXEC and DISCARD.
func (r *Redis) transact(c *server.Peer, of *client, command string, args []string) {
	switch {
	case len(args) > 0:
		of.failed = true
		c.WriteError("ERR wrong number of arguments for '" + strings.ToLower(command) + "' command")
	case command == "MULTI" && of.multi:
		c.WriteError("ERR MULTI calls can not be nested")
	case command == "MULTI":
		of.multi, of.failed, of.queue = true, false, nil
		c.WriteOK()
	case !of.multi:
		c.WriteError("ERR " + command + " without MULTI")
	case command == "DISCARD":
		of.multi, of.queue = false, nil
		c.WriteOK()
	case of.failed:
		of.multi, of.queue = false, nil
		c.WriteError("EXECABORT Transaction discarded because of previous errors.")
	default:
		c.WriteLen(len(of.queue))
		r.runFor(c, of, of.queue...)
		of.multi, of.queue = false, nil
	}
}

// enqueue keeps a command until EXEC if miniredis would do so, which checks the number of arguments.
func (r *Redis) enqueue(c *server.Peer, of *client, command string, args []string) {
	whole := append([]string{command}, args...)
	if command == "SELECT" {
		of.failed = true
		c.WriteError("ERR the embedded Redis does not support SELECT in MULTI")
		return
	}
	r.ask(c, of, "MULTI")
	answer := r.ask(c, of, whole...)
	r.ask(c, of, "DISCARD")
	if strings.HasPrefix(answer, "+QUEUED") {
		of.queue = append(of.queue, whole)
	} else {
		of.failed = true
	}
	c.WriteRaw(answer)
}
