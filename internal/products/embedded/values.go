package embedded

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
)

// readLua converts the encoded answer of a command to a value of Lua, or returns the error that it has.
func readLua(l *lua.LState, answer []byte) (value lua.LValue, err string) {
	if len(answer) > 0 && answer[0] == '-' {
		return nil, string(bytes.TrimSuffix(answer[1:], []byte("\r\n")))
	}
	value, _ = readValue(l, answer)
	return value, ""
}

// readValue converts the first value of an answer, and returns the rest of the answer.
func readValue(l *lua.LState, answer []byte) (lua.LValue, []byte) {
	end := bytes.IndexByte(answer, '\n')
	if end < 2 {
		panic(fmt.Sprintf("miniredis answered %q", answer)) // a fault in miniredis
	}
	line, rest := answer[1:end-1], answer[end+1:]
	switch answer[0] {
	case '+':
		return table(l, "ok", string(line)), rest
	case '-':
		return table(l, "err", string(line)), rest
	case ':':
		n, _ := strconv.ParseInt(string(line), 10, 64)
		return lua.LNumber(n), rest
	case '$':
		n, _ := strconv.Atoi(string(line))
		if n < 0 {
			return lua.LFalse, rest
		}
		return lua.LString(rest[:n]), rest[n+2:]
	case '*':
		n, _ := strconv.Atoi(string(line))
		if n < 0 {
			return lua.LFalse, rest
		}
		t := l.CreateTable(n, 0)
		for range n {
			var element lua.LValue
			element, rest = readValue(l, rest)
			t.Append(element)
		}
		return t, rest
	default:
		panic(fmt.Sprintf("miniredis answered %q", answer))
	}
}

// table returns a table with one field.
func table(l *lua.LState, name, text string) *lua.LTable {
	t := l.CreateTable(0, 1)
	t.RawSetString(name, lua.LString(text))
	return t
}

// writeLua answers with what a script returned.
func writeLua(c *server.Peer, value lua.LValue) {
	switch v := value.(type) {
	case lua.LString:
		c.WriteBulk(string(v))
	case lua.LNumber:
		c.WriteInt(int(v))
	case lua.LBool:
		if v {
			c.WriteInt(1)
		} else {
			c.WriteNull()
		}
	case *lua.LTable:
		writeTable(c, v)
	default:
		c.WriteNull()
	}
}

func writeTable(c *server.Peer, t *lua.LTable) {
	if err, ok := t.RawGetString("err").(lua.LString); ok {
		c.WriteError(string(err))
		return
	}
	if status, ok := t.RawGetString("ok").(lua.LString); ok {
		c.WriteInline(string(status))
		return
	}
	n := 0
	for t.RawGetInt(n+1) != lua.LNil {
		n++
	}
	c.WriteLen(n)
	for i := range n {
		writeLua(c, t.RawGetInt(i+1))
	}
}
