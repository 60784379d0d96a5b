package embedded

import (
	"math"

	luajson "github.com/alicebob/miniredis/v2/gopher-json"
	lua "github.com/yuin/gopher-lua"
)

// registrySize bounds the values that are on Lua's stack at once, for unpack of long tables.
const registrySize = 1 << 20

// state is a Lua state with Redis's libraries. A script sees its globals through an empty table that refuses writes, so
// nothing passes from one run to the next.
type state struct {
	*lua.LState

	shared, globals *lua.LTable
}

func newState(s *scripts) *state {
	l := &state{LState: lua.NewState(lua.Options{
		SkipOpenLibs: true, RegistryMaxSize: registrySize, RegistryGrowStep: 1 << 12,
	})}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.CoroutineLibName: lua.OpenCoroutine, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	shared := l.G.Global
	for _, name := range []string{
		"_G", "_GOPHER_LUA_VERSION", "_printregs", "dofile", "getfenv", "loadfile", "module", "newproxy", "print",
		"require", "setfenv",
	} {
		shared.RawSetString(name, lua.LNil)
	}
	shared.RawSetString("rawset", l.NewFunction(rawset))
	if library, ok := shared.RawGetString("math").(*lua.LTable); ok {
		library.RawSetString("huge", lua.LNumber(math.Inf(1))) // gopher-lua has the largest finite number
	}
	if original, ok := shared.RawGetString("tonumber").(*lua.LFunction); ok {
		shared.RawSetString("tonumber", l.NewFunction(tonumber(original)))
	}
	shared.RawSetString("pcall", l.NewFunction(pcall(shared.RawGetString("pcall").(*lua.LFunction).GFunction)))
	shared.RawSetString("cjson", l.table(map[string]lua.LGFunction{"decode": decode, "encode": encode}))
	shared.RawSetString("os", l.table(map[string]lua.LGFunction{"clock": clock}))
	redis := l.table(s.functions())
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		redis.RawSetString(name, lua.LNumber(i))
	}
	shared.RawSetString("redis", redis)
	shared.RawSetString("server", redis)
	if strings, ok := l.GetMetatable(lua.LString("")).(*lua.LTable); ok {
		strings.RawSetString("__metatable", lua.LFalse)
	}
	shared.ForEach(func(name, value lua.LValue) {
		if library, ok := value.(*lua.LTable); ok {
			shared.RawSet(name, l.protected(library))
		}
	})
	l.SetMetatable(shared, l.metatable(l.NewFunction(missingGlobal)))
	l.shared, l.globals = shared, l.protected(shared)
	shared.RawSetString("_G", l.globals)
	return l
}

func (l *state) table(functions map[string]lua.LGFunction) *lua.LTable {
	return l.SetFuncs(l.NewTable(), functions)
}

// protected is an empty table that reads from another one, and refuses writes.
func (l *state) protected(of *lua.LTable) *lua.LTable {
	t := l.NewTable()
	t.Metatable = l.metatable(of)
	return t
}

// metatable is one that reads from index, refuses writes, and can't be replaced.
func (l *state) metatable(index lua.LValue) *lua.LTable {
	t := l.NewTable()
	t.RawSetString("__index", index)
	t.RawSetString("__newindex", l.NewFunction(readOnly))
	t.RawSetString("__metatable", lua.LFalse)
	return t
}

func readOnly(l *lua.LState) int {
	l.RaiseError("Attempt to modify a readonly table")
	return 0
}

func missingGlobal(l *lua.LState) int {
	l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2).String())
	return 0
}

// rawset is Lua's, for tables that are not protected.
func rawset(l *lua.LState) int {
	t := l.CheckTable(1)
	if of, ok := t.Metatable.(*lua.LTable); ok && of.RawGetString("__metatable") != lua.LNil {
		return readOnly(l)
	}
	t.RawSet(l.CheckAny(2), l.CheckAny(3))
	l.SetTop(1)
	return 1
}

// pcall is Lua's, but returns the text of an error of redis.call.
func pcall(of lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		n := of(l)
		if n == 2 && l.Get(-2) == lua.LFalse {
			if raised, ok := l.Get(-1).(*lua.LTable); ok && raised.RawGetString("err").Type() == lua.LTString {
				l.Pop(1)
				l.Push(raised.RawGetString("err"))
			}
		}
		return n
	}
}

func clock(l *lua.LState) int {
	l.Push(lua.LNumber(0))
	return 1
}

func decode(l *lua.LState) int {
	value, err := luajson.Decode(l, []byte(l.CheckString(1)))
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	l.Push(value)
	return 1
}

// run runs a script, and returns the first value that it returns.
func (l *state) run(proto *lua.FunctionProto, keys, args []string) (lua.LValue, error) {
	l.shared.RawSetString("KEYS", l.list(keys))
	l.shared.RawSetString("ARGV", l.list(args))
	script := l.NewFunctionFromProto(proto)
	script.Env = l.globals
	l.Push(script)
	if err := l.PCall(0, 1, nil); err != nil {
		return nil, err
	}
	returned := l.Get(-1)
	l.SetTop(0)
	return returned, nil
}

func (l *state) list(texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}
