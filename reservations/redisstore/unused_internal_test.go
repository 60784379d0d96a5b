package redisstore

import (
	"maps"
	"testing"
	"time"
)

func TestUntouched(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	info := map[string]string{
		"run_id": "abc", "uptime_in_seconds": "100", "role": "master", "cluster_enabled": "0", "cmdstat_info": "calls=1",
		"master_replid2": "0000000000000000000000000000000000000000", "evicted_scripts": "0",
	}
	if started, ok := untouched(info, now); !ok || !started.Equal(now.Add(-99*time.Second)) {
		t.Errorf("started %v, %v", started, ok)
	}
	for name, value := range map[string]string{
		"run_id": "", "uptime_in_seconds": "", "role": "slave", "cluster_enabled": "1", "master_replid2": "0a",
		"cmdstat_script|flush": "calls=1", "cmdstat_replicaof": "calls=1", "cmdstat_info": "", "evicted_scripts": "7",
		"cmdstat_config|resetstat": "calls=1",
	} {
		changed := maps.Clone(info)
		changed[name] = value
		if _, ok := untouched(changed, now); ok {
			t.Errorf("with %s %q nothing can have been lost", name, value)
		}
	}
	if _, ok := untouched(nil, now); ok {
		t.Error("a server that says nothing")
	}
}
