package embedded

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// scripts runs Lua. The lock of the server guards it.
type scripts struct {
	redis *Redis
	known map[string]*lua.FunctionProto // by the sum of the text
	state *state                        // nil before the first run and after a failed one
	calls *inner

	running  string // the sum of the running script, or empty
	db       int    // of the running script
	readOnly bool   // as EVAL_RO
}

func newScripts(r *Redis) *scripts {
	return &scripts{redis: r, known: map[string]*lua.FunctionProto{}, calls: r.newInner()}
}

func sha1hex(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts by it
	return hex.EncodeToString(sum[:])
}

// run runs EVAL, EVALSHA, their read-only forms, and SCRIPT.
func (s *scripts) run(c *server.Peer, db int, command string, args []string) {
	switch {
	case s.running != "":
		c.WriteError("ERR This Redis command is not allowed from script")
	case command == "SCRIPT":
		s.manage(c, args)
	case len(args) < 2:
		c.WriteError("ERR wrong number of arguments for '" + strings.ToLower(command) + "' command")
	default:
		n, err := strconv.Atoi(args[1])
		switch {
		case err != nil:
			c.WriteError("ERR value is not an integer or out of range")
			return
		case n > len(args)-2:
			c.WriteError("ERR Number of keys can't be greater than number of args")
			return
		case n < 0:
			c.WriteError("ERR Number of keys can't be negative")
			return
		}
		sum := strings.ToLower(args[0])
		if strings.HasPrefix(command, "EVALSHA") {
			if s.known[sum] == nil {
				c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
				return
			}
		} else if sum, err = s.load(args[0]); err != nil {
			c.WriteError(compileError(err))
			return
		}
		s.running, s.db, s.readOnly = sum, db, strings.HasSuffix(command, "_RO")
		s.eval(c, args[2:2+n], args[2+n:])
		s.running = ""
	}
}

// manage answers SCRIPT.
func (s *scripts) manage(c *server.Peer, args []string) {
	subcommand := ""
	if len(args) > 0 {
		subcommand = upper(args[0])
	}
	switch {
	case subcommand == "LOAD" && len(args) == 2:
		sum, err := s.load(args[1])
		if err != nil {
			c.WriteError(compileError(err))
			return
		}
		c.WriteBulk(sum)
	case subcommand == "EXISTS" && len(args) > 1:
		c.WriteLen(len(args) - 1)
		for _, sum := range args[1:] {
			known := 0
			if s.known[strings.ToLower(sum)] != nil {
				known = 1
			}
			c.WriteInt(known)
		}
	case subcommand == "FLUSH" && len(args) <= 2:
		clear(s.known)
		c.WriteOK()
	default:
		c.WriteError("ERR unknown subcommand or wrong number of arguments for '" + subcommand + "'. Try SCRIPT HELP.")
	}
}

// load compiles a script, and returns its sum.
func (s *scripts) load(text string) (string, error) {
	sum := sha1hex(text)
	if s.known[sum] != nil {
		return sum, nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return "", err
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return "", err
	}
	// Lua 5.0's table arg, which gopher-lua makes for each run although no script can see it.
	proto.IsVarArg &^= lua.VarArgNeedsArg
	s.known[sum] = proto
	s.redis.names.Store(sum, nameOf(text, sum))
	return sum, nil
}

func compileError(err error) string {
	return "ERR Error compiling script (new function): " + strings.TrimSpace(err.Error())
}

// eval runs the script of s.running and writes what it returns.
func (s *scripts) eval(c *server.Peer, keys, args []string) {
	if s.state == nil {
		s.state = newState(s)
	}
	returned, err := s.state.run(s.known[s.running], keys, args)
	if err != nil {
		s.state = nil // a failed run may leave coroutines in the state
		c.WriteError(s.failure(err))
		return
	}
	writeLua(c, returned)
}

// failure is the error that Redis answers where a script fails.
func (s *scripts) failure(err error) string {
	var failed *lua.ApiError
	if !errors.As(err, &failed) {
		return "ERR " + err.Error() + " script: " + s.running
	}
	raised, ok := failed.Object.(*lua.LTable)
	if !ok {
		text := failed.Error()
		if failed.Object != nil && failed.Object != lua.LNil {
			text = failed.Object.String()
		}
		at := ""
		if file, rest, found := strings.Cut(text, ":"); found && file == "user_script" {
			line, _, _ := strings.Cut(rest, ":")
			at = ", on @user_script:" + line + "."
		}
		return "ERR " + text + " script: " + s.running + at
	}
	text := lua.LVAsString(raised.RawGetString("err"))
	if text == "" {
		text = "ERR unknown error"
	}
	if line := lua.LVAsString(raised.RawGetString("line")); line != "" {
		return text + " script: " + s.running + ", on @user_script:" + line + "."
	}
	return text + " script: " + s.running
}

// name is the name under which a command is counted.
func (r *Redis) name(command string, args []string) string {
	if !strings.HasPrefix(command, "EVAL") || len(args) == 0 {
		return command
	}
	sum := args[0]
	if !strings.HasPrefix(command, "EVALSHA") {
		sum = sha1hex(args[0])
	}
	if name, found := r.names.Load(sum); found {
		return command + " " + name.(string)
	}
	return command + " " + sum
}

// nameOf is the name that stands alone in a comment on the first line, as lua.Source writes it. Other scripts are named
// by their sum.
func nameOf(text, sum string) string {
	first, _, _ := strings.Cut(text, "\n")
	name, found := strings.CutPrefix(first, "-- ")
	if !found || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return sum
	}
	return name
}
