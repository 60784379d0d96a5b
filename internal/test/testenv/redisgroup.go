package testenv

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is the number of slots of a cluster.
const slots = 16384

// StartSentinel runs a master, its replica, and a Sentinel that replaces the master a second after its death. The
// address is in the form of REDIS_URL. The test needs redis-server on PATH.
func StartSentinel(tb testing.TB) (address string, master, replica *RedisServer) {
	tb.Helper()
	master = StartRedisServer(tb)
	host, port, _ := net.SplitHostPort(master.Addr())
	replica = StartRedisServer(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	replica.await(tb, func(ctx context.Context, c *redis.Client) bool {
		return strings.Contains(c.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	config := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := "sentinel monitor main " + host + " " + port + " 1\nsentinel down-after-milliseconds main 1000\n" +
		"sentinel failover-timeout main 5000\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	watcher := &RedisServer{port: freePort(tb), dir: tb.TempDir(), sentinel: config}
	watcher.start(tb)
	tb.Cleanup(watcher.Kill)
	watcher.await(tb, func(ctx context.Context, c *redis.Client) bool {
		return strings.Contains(c.Info(ctx, "sentinel").Val(), "slaves=1")
	})
	return "redis+sentinel://" + watcher.Addr() + "/main/0", master, replica
}

// Cluster is a Redis Cluster of one test: masters, and a replica of each.
type Cluster struct {
	URL     string
	Masters []*RedisServer
	ids     []string
}

// StartCluster runs a cluster of three masters with a replica each. A killed master is replaced within seconds.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	const masters = 3
	c := &Cluster{}
	nodes, clients, addresses := []*RedisServer{}, []*redis.Client{}, []string{}
	for i := range 2 * masters {
		bus := strconv.Itoa(freePort(tb)) // that of a port above 55535 would be none
		n := StartRedisServer(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-port", bus,
			"--repl-diskless-sync-delay", "0")
		client := redis.NewClient(&redis.Options{Addr: n.Addr()})
		tb.Cleanup(func() { _ = client.Close() })
		nodes, clients = append(nodes, n), append(clients, client)
		addresses = append(addresses, n.Addr())
		c.ids = append(c.ids, client.Do(tb.Context(), "cluster", "myid").Val().(string)) //nolint:forcetypeassert // fails
		if i < masters {
			first, end := i*slots/masters, (i+1)*slots/masters-1
			must(tb, client.ClusterAddSlotsRange(tb.Context(), first, end).Err())
		}
		must(tb, client.Do(tb.Context(), "cluster", "set-config-epoch", i+1).Err())
		host, port, _ := net.SplitHostPort(n.Addr())
		must(tb, clients[0].Do(tb.Context(), "cluster", "meet", host, port, bus).Err())
	}
	for i := range masters {
		nodes[masters+i].await(tb, func(ctx context.Context, r *redis.Client) bool {
			return r.ClusterReplicate(ctx, c.ids[i]).Err() == nil // once it knows the master
		})
	}
	for i, n := range nodes {
		n.await(tb, func(ctx context.Context, r *redis.Client) bool {
			return strings.Contains(r.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
				strings.Count(r.ClusterNodes(ctx).Val(), "slave") == masters &&
				(i < masters || strings.Contains(r.Info(ctx, "replication").Val(), "master_link_status:up"))
		})
	}
	c.Masters, c.URL = nodes[:masters], "redis+cluster://"+strings.Join(addresses, ",")+"/"
	return c
}

// Owner is the index of the master that has the slot of a key at the start, and the slot.
func (c *Cluster) Owner(tb testing.TB, key string) (owner int, slot int64) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.Masters[0].Addr()})
	defer func() { _ = client.Close() }()
	slot = client.ClusterKeySlot(tb.Context(), key).Val()
	return int(slot) * len(c.Masters) / slots, slot
}

// Move moves a slot from one master to another, key by key, as `redis-cli --cluster reshard` does.
func (c *Cluster) Move(tb testing.TB, slot int64, from, to int) {
	tb.Helper()
	ctx := tb.Context()
	source := redis.NewClient(&redis.Options{Addr: c.Masters[from].Addr()})
	target := redis.NewClient(&redis.Options{Addr: c.Masters[to].Addr()})
	defer func() { _, _ = source.Close(), target.Close() }()
	host, port, _ := net.SplitHostPort(c.Masters[to].Addr())
	must(tb, target.Do(ctx, "cluster", "setslot", slot, "importing", c.ids[from]).Err())
	must(tb, source.Do(ctx, "cluster", "setslot", slot, "migrating", c.ids[to]).Err())
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 10).Result()
		must(tb, err)
		if len(keys) == 0 {
			break
		}
		command := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			command = append(command, key)
		}
		must(tb, source.Do(ctx, command...).Err())
	}
	must(tb, target.Do(ctx, "cluster", "setslot", slot, "node", c.ids[to]).Err())
	must(tb, source.Do(ctx, "cluster", "setslot", slot, "node", c.ids[to]).Err())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}
