package embedded

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// functions are the functions of the table redis.
func (s *scripts) functions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"call":  func(l *lua.LState) int { return s.call(l, true) },
		"pcall": func(l *lua.LState) int { return s.call(l, false) },
		"error_reply": func(l *lua.LState) int {
			return single(l, "err", func(text string) string {
				text = strings.TrimPrefix(text, "-")
				if strings.Contains(text, " ") {
					return text
				}
				return "ERR " + text
			})
		},
		"status_reply": func(l *lua.LState) int { return single(l, "ok", func(text string) string { return text }) },
		"sha1hex": func(l *lua.LState) int {
			if l.GetTop() != 1 {
				return fail(l, "wrong number of arguments", true)
			}
			l.Push(lua.LString(sha1hex(lua.LVAsString(l.Get(1)))))
			return 1
		},
		"log":                func(*lua.LState) int { return 0 },
		"set_repl":           func(*lua.LState) int { return 0 },
		"replicate_commands": func(l *lua.LState) int { l.Push(lua.LTrue); return 1 },
		"setresp": func(l *lua.LState) int {
			if l.CheckInt(1) != 2 {
				return fail(l, "the embedded Redis supports RESP 2 alone in scripts", true)
			}
			return 0
		},
	}
}

// single returns a table with one field, made from the one argument.
func single(l *lua.LState, field string, of func(string) string) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		return fail(l, "wrong number or type of arguments", false)
	}
	l.Push(table(l, field, of(string(text))))
	return 1
}

// call runs a command for a script. An error is raised, or returned as a table.
func (s *scripts) call(l *lua.LState, raise bool) int {
	whole := make([]string, l.GetTop())
	for i := range whole {
		switch arg := l.Get(i + 1).(type) {
		case lua.LString:
			whole[i] = string(arg)
		case lua.LNumber:
			whole[i] = numeral(float64(arg))
		default:
			return fail(l, "Lua redis lib command arguments must be strings or integers", raise)
		}
	}
	if len(whole) == 0 {
		return fail(l, "Please specify at least one argument for this redis lib call", raise)
	}
	whole[0] = upper(whole[0])
	command, srv := whole[0], s.redis.serving
	switch kinds[command] { //nolint:exhaustive // the others are seen to before
	case data:
	case unsupported:
		return fail(l, "the embedded Redis does not support "+command, raise)
	default:
		return fail(l, "This Redis command is not allowed from script", raise)
	}
	if command == "SELECT" { // would change the context that all commands of the database share
		return fail(l, "the embedded Redis does not support SELECT in scripts", raise)
	}
	if s.readOnly && srv.IsRegisteredCommand(command) && !srv.IsReadOnlyCommand(command) {
		return fail(l, "Write commands are not allowed from read-only scripts.", raise)
	}
	s.calls.peer.Ctx = s.redis.nested[s.db]
	s.calls.out.Reset()
	s.redis.run(s.calls.peer, s.db, whole)
	s.calls.peer.Flush()
	value, err := readLua(l, s.calls.out.Bytes())
	switch {
	case strings.HasPrefix(err, "ERR unknown command"):
		return fail(l, "Unknown Redis command called from script", raise)
	case strings.HasPrefix(err, "ERR wrong number of arguments"):
		return fail(l, "Wrong number of args calling Redis command from script", raise)
	case err != "":
		return failWith(l, err, raise)
	}
	l.Push(value)
	return 1
}

func fail(l *lua.LState, text string, raise bool) int { return failWith(l, "ERR "+text, raise) }

// failWith raises or returns a table with an error and its line.
func failWith(l *lua.LState, text string, raise bool) int {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(text))
	if !raise {
		l.Push(t)
		return 1
	}
	if parts := strings.Split(l.Where(1), ":"); len(parts) > 1 {
		t.RawSetString("source", lua.LString("@"+parts[0]))
		t.RawSetString("line", lua.LString(parts[1]))
	}
	l.Error(t, 1)
	return 0
}
