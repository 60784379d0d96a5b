// Package redisstore keeps buckets in the Redis that asynq uses, so that no other database is needed. It implements
// [reservations.Store].
//
// # Consistency
//
// Each bucket is one key. A call loads the bucket and Redis's clock, folds its requests by [bucket.Fold] and
// swaps the result where no other process wrote meanwhile; else it queues up, and goes on from the bucket that the call
// before it wrote. Both are scripts of a few lines, and hold none of the rules. All keys begin with
// "headway:{buckets}:", and so are on one node of a cluster.
//
// # Clock
//
// Redis's TIME is the only clock that decides.
//
// # What Redis forgets
//
// A bucket is forgotten a minute after it is full: a missing bucket is a full one. Redis loses buckets also by a
// restart without persistence, a failover to a replica that lags, and FLUSHALL; and an older snapshot is an older
// bucket. So a missing bucket counts as full only if nothing was lost for as long as it takes to fill. The key
// "epoch" says when this run of the server was first seen: with another run_id, or without the key, every script
// begins a new epoch. A bucket from before the epoch counts as empty at the epoch ([bucket.Bucket.Since]). So
// in any window of length T at most capacity + rate*T start, also across a restart or a failover. The price is at
// most one burst at a restart, at a failover, and at the first use; a fixed window starts nothing until it ends,
// unless [Store.Reset] makes the bucket full.
//
// Not covered: a debt (a charge above the capacity, or a call that cost more than its estimate) and a block that were
// lost. Nor two masters at once: a master that is cut off from its replicas and not from workers goes on. The server's
// min-replicas-to-write stops that.
//
// # Memory
//
// An evicted bucket would be a full bucket, so a [Store] refuses a server that may evict: maxmemory-policy has to be
// noeviction, as asynq wants it too. A server at its maxmemory then refuses to write, and nothing limited starts.
//
// # Failures
//
// The store repeats only what certainly changed nothing. Every error is a *[bucket.UnavailableError] that says
// what is known. It matches [bucket.ErrBucket] where the fault is one of the bucket's key.
package redisstore
