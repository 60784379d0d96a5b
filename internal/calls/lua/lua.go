// Package lua makes the scripts of Redis from files, so that they are Lua for editors and tools too.
package lua

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Script returns the script of Source.
func Script(files embed.FS, names ...string) *redis.Script {
	return redis.NewScript(Source(files, names...))
}

// Source returns the named files of a folder "lua", one behind the other, below a comment with the name of the last
// one: it names the script wherever its text is shown. It panics where a file is missing.
func Source(files embed.FS, names ...string) string {
	var text strings.Builder
	text.WriteString("-- " + names[len(names)-1] + "\n")
	for _, name := range names {
		part, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the file is not part of the program
		}
		text.Write(part)
	}
	return text.String()
}

// Args are the arguments of a script for several things: some first, then all things.
func Args[T any](all []T, first ...any) []any {
	for _, one := range all {
		first = append(first, one)
	}
	return first
}
