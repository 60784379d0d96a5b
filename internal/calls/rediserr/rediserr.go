// Package rediserr says what errors of Redis mean.
package rediserr

import (
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// TurnedAway returns whether a server refused a command before it did anything, and may accept it soon: while it loads
// its data, while another server becomes the master, or while a cluster has no master for a key. The client repeats
// such commands itself, apart from commands with NoRetry.
func TurnedAway(err error) bool {
	return slices.ContainsFunc([]string{
		"LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "NOREPLICAS ", "max number of clients reached",
	}, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }) || isReadOnlyScript(err)
}

// isReadOnlyScript returns whether the first write of a script was refused, as servers before Redis 7 say it.
func isReadOnlyScript(err error) bool {
	return redis.HasErrorPrefix(err, "Error running script") && strings.Contains(err.Error(), "-READONLY ")
}
