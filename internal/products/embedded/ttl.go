package embedded

import (
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// longest is the longest time to live, in milliseconds: some 285 years. A time.Duration, which miniredis uses, holds
// hardly more.
const longest = 9e12

func upper(text string) string { return strings.ToUpper(text) }

// setTTL runs the commands that set a time to live, or may do so, with one that counts from the base of expiry. It
// overwrites the arguments.
func (r *Redis) setTTL(c *server.Peer, db int, whole []string) {
	command, args := whole[0], whole[1:]
	at := int64(0) // when the key expires; zero: the command sets no time, or is malformed
	switch command {
	case "SET", "GETEX":
		for i := 1; i+1 < len(args); i++ {
			unit := upper(args[i])
			if (i == 1 && command == "SET") || (unit != "EX" && unit != "PX" && unit != "EXAT" && unit != "PXAT") {
				continue
			}
			if n, err := strconv.ParseInt(args[i+1], 10, 64); err == nil && n > 0 {
				at = r.at(n, unit[0] == 'P', len(unit) == 4)
				whole[i+1], whole[i+2] = "PX", r.kept(max(at, r.expiry.base+1))
			}
			i++
		}
	case "SETEX", "PSETEX":
		if len(args) == 3 {
			if n, err := strconv.ParseInt(args[1], 10, 64); err == nil && n > 0 {
				at = r.at(n, command == "PSETEX", false)
				whole[0], whole[2] = "PSETEX", r.kept(max(at, r.expiry.base+1))
			}
		}
	default:
		if len(args) >= 2 {
			if n, err := strconv.ParseInt(args[1], 10, 64); err == nil {
				at = r.at(n, command[0] == 'P', strings.HasSuffix(command, "AT"))
				whole[0], whole[2] = "PEXPIRE", "-1" // deletes the key
				if at > r.expiry.now {
					whole[2] = r.kept(at)
				}
			}
		}
	}
	r.serving.Dispatch(c, whole)
	if at != 0 {
		r.expiry.plan(place{db: db, key: args[0]}, at)
		r.deleteExpired()
	}
}

// at is the time that n stands for, never zero.
func (r *Redis) at(n int64, milliseconds, absolute bool) int64 {
	if !milliseconds {
		n = max(-longest, min(n, longest/1000)) * 1000
	}
	if !absolute {
		n = max(-longest, min(n, longest)) + r.expiry.now
	}
	return max(1, n)
}

// kept is a time as miniredis keeps it.
func (r *Redis) kept(at int64) string {
	return strconv.FormatInt(min(longest, at-r.expiry.base), 10)
}
