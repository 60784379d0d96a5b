package embedded

import (
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// run runs one command, with its name in upper case, on the data of a database. The caller holds the lock, and c has
// the nested context of the database.
func (r *Redis) run(c *server.Peer, db int, whole []string) {
	command, args := whole[0], whole[1:]
	switch command {
	case "INFO":
		if len(args) == 1 && (strings.EqualFold(args[0], "server") || strings.EqualFold(args[0], "memory")) {
			c.WriteBulk(r.info)
			return
		}
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT":
		r.scripts.run(c, db, command, args)
		return
	case "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME":
		if len(args) == 1 {
			r.readTTL(c, db, command, args[0])
			return
		}
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "SET", "SETEX", "PSETEX", "GETEX":
		r.setTTL(c, db, whole)
		return
	case "COPY":
		if len(args) > 3 || len(args) == 3 && upper(args[2]) != "REPLACE" {
			c.WriteError("ERR the embedded Redis supports COPY within a database alone")
			return
		}
	}
	r.serving.Dispatch(c, whole)
	switch command {
	case "RENAME", "RENAMENX", "COPY":
		if len(args) > 1 {
			r.replan(db, args[1])
		}
	case "FLUSHALL":
		r.expiry.clear()
	}
}

// info returns the fields of INFO that redisstore reads, which miniredis lacks. Run is the ID of this run of the
// server.
func info(run string) string {
	return "run_id:" + strings.ToLower(run) + "\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
}
