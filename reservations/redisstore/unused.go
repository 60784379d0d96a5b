package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// neverBefore is the epoch of a Redis that no process has used before: nothing was taken, at any time.
const neverBefore = "0000000000000001"

// OpenNew is Open for a Redis that no process has used before, such as one that the program has just started: its
// buckets are full at once. In any other Redis it is the same as Open.
func OpenNew(ctx context.Context, client redis.UniversalClient) (*Store, error) {
	info, err := client.Info(ctx, "server").Result()
	if err == nil {
		err = client.SetNX(ctx, keyEpoch, neverBefore+fieldsOf(info)["run_id"], 0).Err()
	}
	if err != nil {
		return nil, fmt.Errorf("begin with a new redis: %w", explained(err))
	}
	return Open(ctx, client)
}

// begin begins the epoch of a Redis that has none, where nothing can have been taken since the server was started. The
// epoch is that moment, so that a Redis that runs for a while has full buckets at its first use. Where that can't be
// known, e.g. because a person emptied the Redis, the first script begins an epoch at its own time.
func (s *Store) begin(ctx context.Context) {
	var exists *redis.IntCmd
	var cached *redis.BoolSliceCmd
	var clock *redis.TimeCmd
	var server, replication, stats, commands, cluster *redis.StringCmd
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		exists, cached, clock = p.Exists(ctx, keyEpoch), p.ScriptExists(ctx, swapScript.hash), p.Time(ctx)
		server, replication = p.Info(ctx, "server"), p.Info(ctx, "replication")
		stats, commands, cluster = p.Info(ctx, "stats"), p.Info(ctx, "commandstats"), p.Info(ctx, "cluster")
		return nil
	})
	if err != nil || exists.Val() != 0 || len(cached.Val()) != 1 || cached.Val()[0] {
		return
	}
	all := fieldsOf(server.Val() + "\n" + replication.Val() + "\n" + stats.Val() + "\n" + commands.Val() + "\n" +
		cluster.Val())
	if started, ok := untouched(all, clock.Val()); ok {
		text := fmt.Sprintf("%016d%s", started.UnixMicro(), all["run_id"])
		_ = s.client.SetNX(ctx, keyEpoch, text, 0).Err() // otherwise the first script begins an epoch
	}
}

// untouched returns when a server was started that has not had data before and lost it, by what INFO says of it. Ok is
// false where that can't be known: no script of a bucket may have been forgotten, and the server may not have been a
// replica.
func untouched(info map[string]string, now time.Time) (started time.Time, ok bool) {
	for _, lost := range []string{
		"script", "script|flush", "replicaof", "slaveof", "config|resetstat", "debug", "restore", "swapdb",
	} {
		if _, called := info["cmdstat_"+lost]; called {
			return time.Time{}, false
		}
	}
	up, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	evicted := info["evicted_scripts"]
	second := strings.Trim(info["master_replid2"], "0")
	ok = err == nil && up >= 0 && info["run_id"] != "" && info["role"] == "master" && second == "" &&
		info["master_replid2"] != "" && info["cluster_enabled"] == "0" && (evicted == "" || evicted == "0") &&
		info["cmdstat_info"] != "" // the statistics of commands are there
	return now.Add(time.Second - time.Duration(up)*time.Second), ok
}

// fieldsOf are the fields of an answer to INFO.
func fieldsOf(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
